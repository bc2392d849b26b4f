"""Array types, directed rounding, parsing of numbers, and root finding."""
