"""Gangs and clusters with heterogeneous GPUs: measured throughputs, generated jobs, trace jobs."""
