"""The simulated cluster: event engine, cluster state, schemes and metrics.

A scheme is assembled from the solver objects that solve standalone instances; none of their rules
stands here a second time.
"""
