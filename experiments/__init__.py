"""Experiments: studies and scenarios as TOML files, a runner, a store of results, and reports."""
