"""Scenarios of our own, each called as its file."""
