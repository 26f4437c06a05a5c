"""Calibration: parameters of a workload under which a simple queue has published figures."""

MOST_TRIALS = 100_000
