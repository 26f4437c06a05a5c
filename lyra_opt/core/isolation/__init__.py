"""Solvers in processes of their own, with limits that are enforced from outside."""
