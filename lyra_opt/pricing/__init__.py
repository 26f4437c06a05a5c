"""Prices of GPU time: the Lagrangian bound that whole replays and large instances share."""
