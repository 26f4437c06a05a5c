"""Policies of the simulator: composed from parts, or adapted from the other problems' policies."""
