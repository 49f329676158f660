"""Physics: each formula is a pure function on arrays, in SI units, with its source."""
