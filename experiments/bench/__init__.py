"""Measure speed with pytest-benchmark and with studies, and compare it with speed targets.

``make bench`` runs them. A target is a row of ``targets.csv``. It is measured by a module of this
folder, which pytest runs, or by a study of ``experiments/studies``.
Times are comparable only within one run on one machine, so no test asserts a time.
"""
