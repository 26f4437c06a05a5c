"""Heuristics that decide which waiting gangs start, and on which GPUs."""
