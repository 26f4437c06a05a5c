"""Common parts of all problems: documents, rules of fields, solvers, results and checkers."""
