"""Exact models of reclaiming; the mathematics stands in the README beside this file."""
