"""``lyra-opt simulate``: schemes side by side on a simulated cluster, and what came of them."""
