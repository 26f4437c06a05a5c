"""Simulate scheduling schemes on a cluster, prove bounds on their results, and report both.

The commands ``lyra-opt simulate`` and ``bound`` and the function `lyra_opt.simulate` use it.

A scenario passes through four folders; each folder imports only from the folders before it:

- ``scenario``: ``loading`` reads a scenario file, whose keys ``keys`` declares; ``building`` builds
  cluster, jobs and loans from it, and ``schemes`` its schemes.
- ``measuring``: ``demand`` states the load before a run, ``measures`` defines the figures of a run,
  ``bounds`` and ``proving`` prove lower bounds, and ``comparison`` compares schemes.
- ``running``: ``replay`` runs one scheme, ``tasks`` lists all runs of a scenario, and ``replays``
  runs them into a store and reads them back.
- ``showing``: ``results`` prints tables, and ``report`` writes the page; all other modules plot.

``commands`` is the command line.
"""
