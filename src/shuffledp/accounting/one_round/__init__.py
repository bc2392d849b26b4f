"""Bounds on the privacy of one release."""
