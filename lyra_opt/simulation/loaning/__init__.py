"""Loaning: how many servers the inference cluster lends, and when.

A forecaster expects demand, the orchestrator turns that into loans, and the clairvoyant optimum
says how good any loans could have been.
"""
