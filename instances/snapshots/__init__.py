"""Snapshots of real clusters: readers for files of Kubernetes, KAI and Slurm."""
