"""``lyra-opt completion``: print the shell code that enables tab completion of ``lyra-opt``.

To complete a word, the shell starts the program, which returns the names that exist at this time,
including those of plug-ins. The attribute ``completer`` of an argument returns its names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import add_command

if TYPE_CHECKING:
    import argparse

ASKED_BY_A_SHELL = "_ARGCOMPLETE"
"""The environment variable by which a shell asks for completions."""

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = """\
Print the code that makes a shell complete commands, options, and names of solvers, schemes,
scenarios, studies and families, including those of plug-ins.
"""

EXAMPLES = """\
examples (add the line to the start-up file of your shell):
  eval "$(lyra-opt completion bash)"      in ~/.bashrc
  eval "$(lyra-opt completion zsh)"       in ~/.zshrc, below compinit
  lyra-opt completion fish | source       in ~/.config/fish/config.fish
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``completion`` to the parser of ``lyra-opt``."""
    parser = add_command(
        subparsers, "completion", "make a shell complete words", DESCRIPTION, EXAMPLES
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run)


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
