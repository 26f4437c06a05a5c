"""``lyra-opt completion``: print the shell code that enables tab completion of ``lyra-opt``.

To complete a word, the shell starts the program, which returns the names that exist at this time,
including those of plug-ins. The attribute ``completer`` of an argument returns its names.
"""

import argparse
import os

ASKED_BY_A_SHELL = "_ARGCOMPLETE"
"""The environment variable by which a shell asks for completions."""


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt completion`` and return the exit code."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["lyra-opt"], shell=arguments.shell))
    return 0


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """If a shell asks for completions, print them and exit; otherwise do nothing."""
    if ASKED_BY_A_SHELL in os.environ:
        from argcomplete import autocomplete

        autocomplete(parser)
