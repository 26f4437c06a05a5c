"""Gangs on a network of racks: Dally's workloads, traces with Dally's models, epoch instances."""
