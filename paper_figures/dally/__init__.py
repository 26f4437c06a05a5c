"""Dally (Sharma et al., arXiv 2401.16492) beside ours."""
