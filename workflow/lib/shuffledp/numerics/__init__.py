"""Kinds of arrays, how floats round, and roots."""
