"""The exact solver for preemption: counting, one model per domain, and HiGHS."""
