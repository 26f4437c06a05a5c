"""Workloads that the simulated cluster replays: generated, read from published traces, transformed.

Times are seconds since the first moment of a workload.
"""

MOST_GENERATED_DAYS = 1000
MOST_GENERATED_JOBS = 1_000_000
"""So that a slip of the keyboard does not fill the memory before anything is said."""
