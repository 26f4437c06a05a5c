"""Placeholder: the exact models of the network problem are in `formulations/network`."""
