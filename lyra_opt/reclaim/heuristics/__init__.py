"""Rules that choose servers without a proof."""
