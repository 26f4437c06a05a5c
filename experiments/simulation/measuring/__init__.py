"""Figures of simulations, proved bounds on them, and comparisons of schemes."""
