"""Bounds on delta of a shuffled randomiser by the privacy blanket, and by the hidden slot."""
