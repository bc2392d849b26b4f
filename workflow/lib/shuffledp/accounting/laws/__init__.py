"""Laws of counts: binomial, Poisson-binomial, and mean excesses over multinomial sums."""
