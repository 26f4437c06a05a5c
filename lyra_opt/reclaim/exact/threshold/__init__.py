"""Branch and bound on which jobs are kept, for any slack."""
