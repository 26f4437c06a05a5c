"""Exact models of allocation; the mathematics stands in the README beside this file."""
