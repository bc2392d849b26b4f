"""Check the certificates that `shuffledp.accounting.certificate` makes."""
