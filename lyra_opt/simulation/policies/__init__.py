"""Policies of the simulated cluster: put together from parts, or from rules of other problems."""
