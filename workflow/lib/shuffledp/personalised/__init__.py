"""Users who choose their own budgets: what each has, algorithms, experiments (paper D)."""
