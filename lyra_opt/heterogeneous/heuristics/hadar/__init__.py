"""Hadar and HadarE: jobs buy GPUs at exponential prices."""
