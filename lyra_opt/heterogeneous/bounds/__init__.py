"""Proved dual bounds for every objective of the heterogeneous problem."""
