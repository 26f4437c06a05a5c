"""Proved dual bounds on every objective of the network problem."""
