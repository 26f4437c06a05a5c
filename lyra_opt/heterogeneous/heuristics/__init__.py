"""Rules that decide round by round."""
