"""Exact models of the network problem, which places waiting gangs on machines and racks.

The README in this folder gives the mathematics.
"""
