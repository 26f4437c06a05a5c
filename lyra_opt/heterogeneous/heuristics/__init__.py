"""Heuristics for gangs on heterogeneous GPUs, most of them round-based policies."""
