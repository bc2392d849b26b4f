"""Bounds that papers propose, for comparison; no certified bound depends on them."""
