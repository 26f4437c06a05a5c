"""Figures of speed: benchmarks for pytest-benchmark, and the targets of studies and benchmarks.

``python -m lyra_opt.experiments.bench`` runs them. A target is a row of ``targets.csv``; what it is
about is measured by a module of this folder, which pytest runs, or by a study of
``experiments/studies``. Timings hold for one machine and one run: no test has one.
"""
