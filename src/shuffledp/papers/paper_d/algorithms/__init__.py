"""Paper D's Algorithms 2 and 3: means and frequencies from users with personal budgets."""
