"""Exact methods: Gavel's linear programmes over shares of time."""
