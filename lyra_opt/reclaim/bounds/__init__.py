"""Proved dual bounds on the weight of preempted jobs."""
