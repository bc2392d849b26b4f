"""Paper D: its algorithms, experiments, figures and approximations for personal budgets."""
