"""The checker of certificates (`shuffledp.accounting.certificate` makes them)."""
