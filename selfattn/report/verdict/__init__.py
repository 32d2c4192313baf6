"""What may be said: the order of the models, whether they can be compared, the question and its answer."""
