"""Checker of the certificates that `shuffledp.accounting.certificate` writes."""
