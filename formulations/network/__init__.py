"""Exact models of the network problem; the README in this folder gives the mathematics."""
