"""Exact models of GPU-scheduling problems: one folder per problem, one file per backend solver.

The ``*_model.py`` files in one folder hold the same constraints, with the same names and in the
same order. The docstring of each constraint is its inequality. The README of the
folder defines the symbols. ``formulations/backends`` holds the code that runs each backend.
"""
