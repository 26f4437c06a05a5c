"""Exact models of the reclaim problem; the README in this folder gives the mathematics."""
