"""Reclaim heuristics: rules that choose servers without proving optimality."""
