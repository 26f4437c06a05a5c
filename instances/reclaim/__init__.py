"""Families of reclaim instances, each a seeded and versioned distribution."""
