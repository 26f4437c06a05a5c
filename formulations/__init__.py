"""The exact models: one folder a problem, one file a backend, made to be read side by side.

Files of backends (``*_model.py``) in one folder are twins: the same constraints by the same names
in the same order, each constraint's docstring its inequality. Symbols are those of the README of
the problem; how a backend is run stands in ``formulations/backends``.
"""
