"""Lower bounds on the mean JCT of every schedule of a workload, proved by prices of GPU time."""
