"""How each backend is run, whatever the model: start, limits, status and bound."""
