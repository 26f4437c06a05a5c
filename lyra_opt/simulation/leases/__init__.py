"""Gangs in a network of tiers: GPUs on leases, under rules that decide where gangs start."""
