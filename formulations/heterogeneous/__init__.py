"""Exact models of the heterogeneous problem; see the README beside this file."""
