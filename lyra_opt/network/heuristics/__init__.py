"""Rules that place waiting gangs, one a file."""
