"""Read a scenario: its file, its keys, and the cluster, jobs and schemes that it describes."""
