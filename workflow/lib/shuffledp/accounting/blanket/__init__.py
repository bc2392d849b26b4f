"""Bounds on delta of any shuffled randomiser, by sums of independent real-valued variables."""
