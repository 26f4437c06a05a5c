"""Rules that choose servers without a proof, one a file."""
