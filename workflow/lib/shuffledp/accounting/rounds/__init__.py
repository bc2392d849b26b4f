"""Bounds on the privacy of several releases by the same users."""
