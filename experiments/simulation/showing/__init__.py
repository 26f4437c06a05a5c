"""Show the results of simulations: tables, data frames, and a page with plots."""
