"""Branch and bound on which jobs are preempted, for the rigid semantics."""
