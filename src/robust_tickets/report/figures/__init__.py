"""Figures as SVG, written by hand: no script, no image, colours from the page's style sheet so that dark mode works."""
