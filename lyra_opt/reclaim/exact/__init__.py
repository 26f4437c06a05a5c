"""The exact solver: reduction, parts, and two tree searches."""
