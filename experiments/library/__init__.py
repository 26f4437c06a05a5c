"""How the instance library is made: from a plan to a catalogue, graded by measurement.

``python -m lyra_opt.experiments.library --help`` says how; ``make library`` does all of it.
"""
