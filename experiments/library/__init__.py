"""Make a version of the instance library: from a plan to a catalogue of graded instances.

``python -m lyra_opt.experiments.library --help`` explains the steps; ``make library`` runs them.
"""
