"""Schedules of a whole workload by somebody who knows all of it: what a bound is held against."""
