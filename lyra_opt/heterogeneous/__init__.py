"""Jobs on unlike GPUs: which kinds, how many and when (Hadar, HadarE, Gavel)."""
