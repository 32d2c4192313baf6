"""The built-in metrics, by name; imported when the first is asked for."""

from selfattn.evaluation.metrics import basic as basic
from selfattn.evaluation.metrics import translation as translation
