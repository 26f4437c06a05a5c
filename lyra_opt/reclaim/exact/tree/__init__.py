"""Branch and bound on preempted and kept jobs, for the rigid semantics."""
