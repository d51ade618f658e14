"""The page of a folder of results: leaderboard, the papers' tables and figures beside ours, attacked texts, every number's origin."""

from robust_tickets.reproduce.page.whole import make, write_page

__all__ = ["make", "write_page"]
