"""Bounds on delta of a shuffled randomiser: privacy blanket (an i.i.d. sum) and hidden slot."""
