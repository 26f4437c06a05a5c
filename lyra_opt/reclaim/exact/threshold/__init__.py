"""Branch and bound on preempted and kept jobs, for jobs with any slack."""
