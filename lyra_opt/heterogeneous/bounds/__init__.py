"""Proved dual bounds on every objective of the heterogeneous problem."""
