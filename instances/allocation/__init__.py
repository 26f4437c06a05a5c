"""Families of allocation instances."""
