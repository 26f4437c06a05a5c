"""Schemes on a simulated cluster: ``lyra-opt simulate`` and ``bound``, and `lyra_opt.simulate`.

A scenario passes through four folders, each of which imports only those before it:

- ``scenario``: reads a scenario file, and builds the cluster, jobs, loans and schemes from it.
- ``measuring``: defines the figures of a run, proves bounds on them, and compares schemes.
- ``running``: runs one scheme, and keeps the rows of all runs in a store.
- ``showing``: prints the results, and writes the page with its plots.

``commands`` is the command line.
"""
