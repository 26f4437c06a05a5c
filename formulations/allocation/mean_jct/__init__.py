"""Mean-JCT models on a time grid: a relaxation (lower bound) and schedules (upper bound)."""
