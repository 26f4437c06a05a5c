"""Odd instances, compared with the reference that is written from the words of the formats alone.

What is drawn is a function of seed, problem and number, so that a failure can be shown again.
"""
