"""Exact solvers: dynamic programming for the knapsacks, branch and bound for mean JCT."""
