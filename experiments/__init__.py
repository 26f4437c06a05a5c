"""Run solver studies and cluster simulations from TOML files, store each run, and write reports."""
