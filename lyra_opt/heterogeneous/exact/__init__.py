"""Exact solvers of share objectives: an interior point method and water filling."""
