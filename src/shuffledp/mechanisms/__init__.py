"""Mechanisms that release a histogram, one module each, and what they share."""
