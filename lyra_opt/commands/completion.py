"""``lyra-opt completion``: the line that makes a shell complete words, names of plug-ins too.

A shell that completes a word starts the program, which answers with the names that there are at the
time; ``completer`` of an argument says which.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import add_command

if TYPE_CHECKING:
    import argparse

ASKED_BY_A_SHELL = "_ARGCOMPLETE"
"""The variable by which a shell says that it wants words."""

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = """\
Print what makes a shell complete commands, options, and names of solvers, schemes, scenarios,
studies and families, those of plug-ins too.
"""

EXAMPLES = """\
examples, for the file that your shell reads at its start:
  eval "$(lyra-opt completion bash)"      in ~/.bashrc
  eval "$(lyra-opt completion zsh)"       in ~/.zshrc, below compinit
  lyra-opt completion fish | source       in ~/.config/fish/config.fish
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = add_command(
        subparsers, "completion", "make a shell complete words", DESCRIPTION, EXAMPLES
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["lyra-opt"], shell=arguments.shell))
    return 0


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that wants words, and end; do nothing where none does."""
    if ASKED_BY_A_SHELL in os.environ:
        from argcomplete import autocomplete

        autocomplete(parser)
