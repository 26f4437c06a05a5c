"""The pattern model: machines that are alike, and how many are filled in which way."""
