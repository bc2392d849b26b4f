"""Paper D's experiments: means, frequencies and training with a budget for each user."""
