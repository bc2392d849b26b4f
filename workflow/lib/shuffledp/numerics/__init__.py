"""Kinds of arrays, how floats round and are written, and roots."""
