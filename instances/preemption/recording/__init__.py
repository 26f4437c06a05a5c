"""Scripts that record the decisions of real schedulers on preemption instances."""
