"""The plots of replays, the same for every cluster and scheme."""
