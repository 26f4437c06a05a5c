"""Families of preemption instances, and the conversion of reclaim instances."""
