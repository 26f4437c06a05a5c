"""The harness: studies as TOML files, a runner, a store of results and a report."""
