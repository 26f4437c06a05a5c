"""Rules that decide round by round, one a file."""
