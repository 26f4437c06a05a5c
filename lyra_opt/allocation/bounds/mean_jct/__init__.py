"""Proved lower bounds on mean JCT, from mean busy times and from prices of GPU time."""
