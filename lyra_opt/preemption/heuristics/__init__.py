"""Preemption heuristics: imitations of production rules, and rules of our own."""
