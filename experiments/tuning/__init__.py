"""Simulation optimisation: choose values of a scenario's keys by simulating drawn workloads."""
