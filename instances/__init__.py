"""Where instances come from: seeded families, trace readers and a small library.

``family`` is the entry: families by name, and `lyra_opt.instances.family.generate`. ``reclaim``
holds the families of that problem, ``traces`` reads job traces, ``library`` has instances with a
name. All draws come from ``randomness``.
"""
