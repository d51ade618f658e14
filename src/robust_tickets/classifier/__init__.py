"""The classifier: what everything downstream trains, prunes, attacks and asks. Importing this loads no torch."""

from robust_tickets.classifier.core import Classifier
from robust_tickets.classifier.load import load_classifier
from robust_tickets.classifier.passing import batches_by_size
from robust_tickets.classifier.texts import Encoded, Text

__all__ = ["Classifier", "Encoded", "Text", "batches_by_size", "load_classifier"]
