"""Scenario files that have names; ``lyra-opt scenarios list`` lists them."""
