"""Proved lower bounds on mean JCT: busy times, and prices of time."""
