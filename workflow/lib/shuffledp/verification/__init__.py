"""The checker of certificates (`shuffledp.certificate` makes them)."""
