"""Gangs that talk across a network of tiers: Dally's jobs, jobs of traces, and single decisions."""
