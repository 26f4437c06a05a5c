"""Tools for testing your own solvers: conformance checks, strategies and counterexamples."""
