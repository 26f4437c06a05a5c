"""Proved dual bounds on every objective of allocation."""
