"""Transformations: what may stand in a word's place."""
