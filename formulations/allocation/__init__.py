"""Exact models of the allocation problem, which chooses worker counts for elastic jobs.

The README in this folder gives the mathematics.
"""
