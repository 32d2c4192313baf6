"""Phrases of CLDR in two languages, without end."""
