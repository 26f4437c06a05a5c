"""The exact models: one folder a problem, one file a backend, made to be read side by side."""
