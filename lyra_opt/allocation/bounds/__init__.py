"""Proved dual bounds for every objective of allocation."""
