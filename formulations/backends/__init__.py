"""Code that runs each backend: warm start, limits, status and dual bound, for any model."""
