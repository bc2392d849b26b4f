"""Privacy blanket bounds: delta of any shuffled randomiser from a sum of i.i.d. variables."""
