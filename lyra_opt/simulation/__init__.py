"""The simulated cluster: one event loop, clusters, speeds, tenures, schemes and metrics.

A scheme is assembled from the solver objects that solve standalone instances; none of their rules
stands here a second time.
"""
