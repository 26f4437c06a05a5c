"""Code that runs each backend solver on any model, with warm start, limits and dual bound."""
