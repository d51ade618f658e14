"""Transformations: candidates for a word."""
