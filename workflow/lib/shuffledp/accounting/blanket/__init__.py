"""Upper bounds on delta of a shuffled randomiser: privacy blanket, and the tighter hidden slot."""
