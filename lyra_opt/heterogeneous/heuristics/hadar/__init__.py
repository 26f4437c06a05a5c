"""Hadar and HadarE, in which jobs buy GPUs at exponential prices."""
