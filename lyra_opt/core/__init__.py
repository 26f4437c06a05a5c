"""What every problem builds on: documents, rules of fields, solvers, results and their checks."""
