"""Scheduling policies and the greedy knapsack."""
