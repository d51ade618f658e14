"""Figures: drawings made from outcomes alone. Start at ``figure.figure`` and ``pareto.pareto``; ``drawn.show`` makes them markup."""
