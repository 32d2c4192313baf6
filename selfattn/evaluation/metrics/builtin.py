"""The built-in metrics, by name; imported when the first is asked for."""

from selfattn.evaluation.metrics import exact as exact
from selfattn.evaluation.metrics import likelihood as likelihood
from selfattn.evaluation.metrics import translation as translation
