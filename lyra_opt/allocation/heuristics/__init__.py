"""Greedy knapsacks and policies of scheduling, one a file."""
