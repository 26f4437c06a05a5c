"""The base class of results that print as the command line shows them."""

from contextlib import redirect_stdout
from io import StringIO

from lyra_opt.commands.output import html_of_printed


class _Terminal(StringIO):
    """Text for which tables and sentences are folded to the width of the terminal."""

    def isatty(self) -> bool:
        return True


class Printed:
    """A result that ``print`` and notebooks show as its command does."""

    def _print(self) -> None:
        """Print the result as the command does."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the text that the command prints."""
        text = _Terminal()
        with redirect_stdout(text):
            self._print()
        return text.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return html_of_printed(self._print)
