"""The version of the package, for those who may not import its front page: that names every house of the street."""

__version__ = "0.1.0"
