"""Solvers in child processes, with limits that the parent process enforces."""
