"""Figures: pure functions from tables to matplotlib figures, one module per family."""
