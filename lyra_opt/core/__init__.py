"""Code that all problems share, such as file reading, field validation, solvers and checkers."""
