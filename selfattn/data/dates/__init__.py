"""Generated dates, written with the formats of CLDR."""
