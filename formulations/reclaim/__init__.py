"""Exact models of the reclaim problem, which chooses the servers on loan to take back.

The README in this folder gives the mathematics.
"""
