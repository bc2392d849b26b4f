"""Paper D's algorithms 1 to 3: means, frequencies and gradients from users with own budgets.

Nothing here draws a random number. Randomisers take uniform ones, so that a simulation gives them
from its stream and a collection from the operating system.
"""
