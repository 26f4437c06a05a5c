"""Hadar and HadarE (Sultana et al., IPDPS 2024 and arXiv 2503.10918) beside ours."""
