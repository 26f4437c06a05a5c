"""Shares of time as linear programmes: what they say, and what their prices prove."""
