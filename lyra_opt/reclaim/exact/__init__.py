"""The exact solver for reclaiming: reduction, components, and two tree searches."""
