"""How good and how fast a model is: predictions, metrics with intervals, latency."""
