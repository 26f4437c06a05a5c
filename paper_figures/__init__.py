"""Published tables and figures: the papers' numbers and ours, one module each."""
