"""The version of the package, here and in CITATION.cff; a file of its own for those who may not import the front page."""

__version__ = "0.1.0"
