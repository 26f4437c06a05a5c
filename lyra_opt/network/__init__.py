"""The network problem: gangs close together, or soon (Dally, arXiv 2401.16492)."""
