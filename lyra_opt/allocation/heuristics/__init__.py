"""Allocation heuristics: scheduling policies and the greedy knapsack."""
