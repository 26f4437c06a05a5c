"""The cluster simulator: an event loop, clusters, job speeds, tenures, schemes and metrics.

Schemes call the solver objects that solve standalone instances; the simulator does not implement
any of their rules again.
"""
