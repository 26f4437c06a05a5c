"""Odd instances against brute force written from the words of the formats alone.

Nothing in `brute_force` imports the package: it reads documents as files hold them. What is drawn
is a function of seed, problem and number, so that a failure can be shown again.
"""
