"""Proofs of bounds as files, and a checker for them that needs only Python."""
