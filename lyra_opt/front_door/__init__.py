"""The functions of ``import lyra_opt as lo``; `names` lists them.

The package imports nothing, so that a command loads only the modules that it needs.
"""
