"""Exact models of the heterogeneous problem, which assigns gangs to GPUs of several types.

The README in this folder gives the mathematics.
"""
