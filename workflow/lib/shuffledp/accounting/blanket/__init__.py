"""Divergences of any shuffled randomiser, as sums of independent atoms without a lattice."""
