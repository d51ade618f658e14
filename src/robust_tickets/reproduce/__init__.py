"""The papers' tables and figures: what was published, cell by cell, and what is known to be wrong with it. Imports no torch."""
