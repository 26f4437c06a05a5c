"""Exact solvers: knapsacks by dynamic programming, mean JCT by branch and bound."""
