"""Published tables and figures: one TOML file and one module of functions per paper."""
