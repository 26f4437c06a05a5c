"""What the help of ``lyra-opt simulate`` says of schemes that nothing else has to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import HelpFormatter

if TYPE_CHECKING:
    from collections.abc import Mapping

HELP_COLUMNS = 99

ROUND_SCHEMES, NETWORK_SCHEMES = "<schemes that decide in rounds>", "<schemes on a network>"
"""Stand for what is said of them until the help is shown."""


class SchemeHelpFormatter(HelpFormatter):
    """Fills in the schemes."""

    def format_help(self) -> str:
        """Return the help."""
        shown = super().format_help()
        for placeholder, fill_in in ((ROUND_SCHEMES, _rounds), (NETWORK_SCHEMES, _network)):
            if placeholder in shown:
                shown = shown.replace(placeholder, fill_in())
        return shown


def _rounds() -> str:
    from instances.heterogeneous.clusters import SUMMARIES as CLUSTERS
    from lyra_opt.heterogeneous.policies import SUMMARIES

    lines = ["schemes that decide in rounds, on unlike GPUs:", *_in_columns(SUMMARIES)]
    return "\n".join([*lines, "", "clusters of unlike GPUs:", *_in_columns(CLUSTERS)])


def _network() -> str:
    from textwrap import fill

    from lyra_opt.simulation.leases.network_schemes import LEASES, NETWORK_SCHEMES

    with_leases = {
        name: scheme.summary for name, scheme in NETWORK_SCHEMES.items() if scheme.engine == LEASES
    }
    others = ", ".join(name for name in NETWORK_SCHEMES if name not in with_leases)
    lines = ["schemes with leases, on a network of tiers (--topology):", *_in_columns(with_leases)]
    remark = f"With --topology, of the schemes above: {others}."
    return "\n".join([*lines, "", fill(remark, HELP_COLUMNS, break_on_hyphens=False)])


def _in_columns(summaries: Mapping[str, str]) -> list[str]:
    from textwrap import wrap

    width = max(map(len, summaries))
    lines = []
    for name, summary in summaries.items():
        first, *others = wrap(summary, HELP_COLUMNS - width - 3)
        lines.append(f"  {name:<{width}} {first}")
        lines += [" " * (width + 3) + other for other in others]
    return lines
