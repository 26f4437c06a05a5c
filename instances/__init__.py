"""Instances of all problems: seeded families, readers of job traces, and the instance library.

Families are found by name and make instances with `lyra_opt.instances.family.generate`. The
sub-packages ``reclaim``, ``heterogeneous`` and ``network`` hold the families of their problems.
Module ``traces`` reads job traces, and ``library`` holds named instances with their best known
solutions. Random numbers come from module ``randomness`` alone.
"""
