"""Exact models of GPU-scheduling problems: one folder per problem.

Most folders state a model once, as rows that all backends take. Where a folder has one file
``*_model.py`` per backend instead, these files hold the same constraints, with the same names and
in the same order. The docstring of each constraint is its inequality. The README of the folder
defines the symbols. ``formulations/backends`` holds the code that runs each backend.
"""
