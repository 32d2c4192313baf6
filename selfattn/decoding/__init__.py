"""How a target is written, searched, scored and aligned. Everything here knows a model by its protocol alone."""
