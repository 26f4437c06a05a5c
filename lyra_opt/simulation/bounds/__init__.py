"""Lower bounds for all schedules of a workload, from prices of GPU time."""
