"""Runs on other machines through a Dask scheduler (extra ``lyra-opt[cluster]``)."""
