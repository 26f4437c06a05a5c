"""Table 4: placeholder."""
