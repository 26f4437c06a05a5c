"""Workloads for the simulated cluster: generated, read from published traces, or transformed.

Times are in seconds from the start of a workload.
"""

MOST_GENERATED_DAYS = 1000
MOST_GENERATED_JOBS = 1_000_000
"""Limits of generated workloads, so that a typing error in a number cannot fill the memory."""
