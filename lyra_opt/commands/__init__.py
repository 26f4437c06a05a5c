"""Sub-commands of ``lyra-opt`` such as ``solve`` and ``verify``, with shared options and output."""
