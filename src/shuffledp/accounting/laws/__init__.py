"""Probabilities and mean positive parts of binomial, Poisson-binomial and multinomial counts."""
