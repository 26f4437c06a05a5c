"""Lyra and its Baseline, for the page on gaps."""

from __future__ import annotations

from paper_figures.simulations import Case

BASELINE = Case(scheme="fifo")
LYRA = Case(scheme="lyra")
