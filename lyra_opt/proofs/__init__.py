"""Proofs of bounds as files, and a checker of them that needs nothing but Python."""
