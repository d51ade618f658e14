"""Searches that find a ticket, one file per method."""
