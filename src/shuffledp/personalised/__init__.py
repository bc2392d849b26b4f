"""Certified central budgets of users who choose their own local budgets."""
