"""Exact models of the allocation problem; the README in this folder gives the mathematics."""
