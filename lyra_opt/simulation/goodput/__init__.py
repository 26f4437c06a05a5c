"""Goodput: how tuning batch sizes changes the speed of jobs, and the schedulers built on it.

* `model`: the goodput of a training job by GPUs and batch size, and profiles of six models.
* `tuning`: the speed of tuned jobs in the simulation.
* `allocation`: Pollux's allocation of one epoch (its fitness, a bound on it, and a search, which
  the tests compare with brute force), and Lyra's scaling of tuned jobs.

Source: Qiao et al., *Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning*
(OSDI 2021), and its public artifact, the branch ``osdi21-artifact`` of petuum/adaptdl.
"""
