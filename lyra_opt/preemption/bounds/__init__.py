"""Proved lower bounds on the objective of preemption instances, in integers."""
