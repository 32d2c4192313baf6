"""Generated phrases in two languages, from CLDR."""
