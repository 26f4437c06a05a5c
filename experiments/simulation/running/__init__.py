"""Run the schemes of a scenario, and keep one row per run in a store."""
