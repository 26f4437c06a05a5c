"""Exact models of the heterogeneous problem; the README in this folder gives the mathematics."""
