"""Phrases of CLDR in two languages."""
