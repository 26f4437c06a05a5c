"""Branch and bound on jobs, for the rigid semantics."""
