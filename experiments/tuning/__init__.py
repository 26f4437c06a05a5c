"""Choose values of a scenario's keys by simulating random workloads (simulation optimisation)."""
