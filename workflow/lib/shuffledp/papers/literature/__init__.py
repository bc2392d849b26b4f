"""Bounds that papers propose; no certified bound depends on them."""
