"""Runs on other machines, through Dask's scheduler: the extra ``lyra-opt[cluster]``."""
