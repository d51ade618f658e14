"""Constraints: which words may change at all, and which candidates pass."""
