"""Simulation optimisation: parameters of a rule that are best over simulated draws of jobs."""
