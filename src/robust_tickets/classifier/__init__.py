"""Classifiers to train, prune, attack and predict with. Importing this loads no torch."""

from robust_tickets.classifier.base import Classifier, as_classifier, batches_by_size
from robust_tickets.classifier.callable import CallableClassifier
from robust_tickets.classifier.classifier import ModelClassifier
from robust_tickets.classifier.encode import Encoded, Text
from robust_tickets.classifier.loading import load_classifier
from robust_tickets.classifier.onnx import OnnxClassifier

__all__ = [
    "CallableClassifier",
    "Classifier",
    "Encoded",
    "ModelClassifier",
    "OnnxClassifier",
    "Text",
    "as_classifier",
    "batches_by_size",
    "load_classifier",
]
