"""Trained models in the formats of other programs, and those programs as models of the one protocol."""
