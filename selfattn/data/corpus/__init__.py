"""Corpora of real text: read, cleaned, in three parts."""
