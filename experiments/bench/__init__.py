"""Figures of speed: what is timed, how often, and against which target.

Timings hold for one machine and one run; they live here and in no test.
"""
