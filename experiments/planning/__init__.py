"""Plans for real clusters: which nodes to drain, whom to preempt, and the commands for it."""
