"""The classifier: what everything downstream trains, prunes, attacks and asks. Importing this loads no torch."""

from robust_tickets.classifier.classifier import Classifier, batches_by_size
from robust_tickets.classifier.encode import Encoded, Text
from robust_tickets.classifier.loading import load_classifier

__all__ = ["Classifier", "Encoded", "Text", "batches_by_size", "load_classifier"]
