"""Tests of `lyra_opt.simulation.bounds`."""
