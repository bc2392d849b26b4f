"""Ways to release a histogram: each mechanism is one object in one module."""
