"""Branch and bound for mean JCT, on the order of releases, starts and completions."""
