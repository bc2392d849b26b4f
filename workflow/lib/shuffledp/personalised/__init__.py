"""Certified bounds for users with personal budgets, and the experiments of paper D."""
