"""Plots of a study, each as an SVG with the same colours and marks for a solver."""
