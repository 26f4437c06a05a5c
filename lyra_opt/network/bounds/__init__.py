"""Proved dual bounds for every objective of the network problem."""
