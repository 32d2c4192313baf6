"""The built-in tasks: dates, translation, recall and a language model."""
