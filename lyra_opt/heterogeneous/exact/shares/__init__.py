"""Linear programmes over time shares, with the bounds that their dual prices prove."""
