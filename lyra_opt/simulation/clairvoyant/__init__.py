"""Good schedules computed with full knowledge of the workload, to compare with lower bounds."""
