"""Workloads that the simulated cluster replays: generated, read from published traces, transformed.

Times are seconds since the first moment of a workload.
"""
