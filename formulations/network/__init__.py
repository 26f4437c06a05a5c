"""Exact models of the network problem; see the README beside this file."""
