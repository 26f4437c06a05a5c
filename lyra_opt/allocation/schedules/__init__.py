"""The evaluator that simulates allocation policies, and its inner loops."""
