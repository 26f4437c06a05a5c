"""Exact models of the preemption problem; the README in this folder gives the mathematics."""
