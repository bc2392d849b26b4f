"""Local randomisers: what a user does to a record before the report is shuffled."""
