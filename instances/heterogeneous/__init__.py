"""Gangs and clusters of unlike GPUs: measured throughputs, generated jobs, jobs of traces."""
