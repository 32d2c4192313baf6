"""Dates of CLDR, without end."""
