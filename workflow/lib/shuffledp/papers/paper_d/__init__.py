"""Paper D: its algorithms, experiments, figures and approximations for personal budgets.

Where the paper is silent or misprinted, this package chooses:

- hidden layer and start: 64 ReLU units; normal weights of variance 2 over the width before them
- budgets of the clients: the laws of Table 3, the second number of N(m, s) as standard deviation
- step 4 of Algorithm 1: an epoch begins where the last one ended (as printed, at the start)
- step 10: the gradient of record j (as printed, of x_i)
- sigma of the records in figures 6 and 7: 10, so that the range is three of them on either side
- axes of figures 6 to 8, which the text does not have: the estimate with its 5th to 95th percentile
  over 1,000 repetitions, and its error, over f_C from 0.01 and eps_C from 0.05, both to 0.5
- figures 2 and 3: eps = 1, delta = 0 and 0.1; mu = 0.5, 1, 3
"""
