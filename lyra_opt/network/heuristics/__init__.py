"""Rules that place waiting gangs."""
