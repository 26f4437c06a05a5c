"""What ``import lyra_opt as lo`` gives: files, solving, comparing, verifying, pictures."""
