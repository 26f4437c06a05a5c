"""For tests of one's own solvers: conformance, strategies, smallest counterexamples."""
