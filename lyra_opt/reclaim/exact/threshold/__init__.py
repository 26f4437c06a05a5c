"""Branch and bound on which jobs are preempted, for jobs that survive some losses."""
