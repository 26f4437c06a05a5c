"""Exact models of GPU-scheduling problems: one folder per problem, one file per backend solver.

The ``*_model.py`` files in one folder are twins. They hold the same constraints, with the same
names, in the same order, and the docstring of each constraint is its inequality. The README of the
folder defines the symbols. ``formulations/backends`` holds the code that runs each backend.
"""
