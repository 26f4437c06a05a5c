"""Exact methods for time shares: Gavel's linear programmes."""
