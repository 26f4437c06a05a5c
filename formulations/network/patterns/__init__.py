"""The pattern model: how many equal machines are filled in which way."""
