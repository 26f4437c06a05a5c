"""Prices of GPU time: a Lagrangian bound for whole replays and for large allocation instances."""
