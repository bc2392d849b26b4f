"""Paper D: its algorithms, experiments, figures and approximations for personal budgets.

Where the paper is silent or misprinted, this package chooses:

- network: 64 hidden ReLU units; initial weights are normal with variance 2 / (width of their input)
- budgets of the clients: the laws of Table 3, with s in N(m, s) as the standard deviation
- step 4 of Algorithm 1: an epoch starts where the last one ended (as printed, from initial values)
- step 10: the gradient of record j (as printed, of x_i)
- standard deviation of the records in figures 6 and 7: 10; the range is the mean +- 3 of these
- axes of figures 6 to 8, which the text does not describe: f_C from 0.01 to 0.5 or eps_C from 0.05
  to 0.5 against the estimate (mean, 5th to 95th percentile of 1,000 repetitions) and its error
- figures 2 and 3: eps = 1, delta = 0 and 0.1; mu = 0.5, 1, 3
"""
