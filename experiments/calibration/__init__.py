"""Calibration: parameters of a workload under which a simple queue has published figures."""
