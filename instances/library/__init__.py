"""Instances worth a name, with the best solutions known.

``NAME.json`` is an instance, ``solutions/NAME.solution.json`` the best solution known of it,
whose ``objective`` was checked.

====================  ===========================================================================
lyra-figure-5         Lyra (EuroSys 2023), Figure 5: six servers, four jobs, N_R = 2; optimum 1,
                      proved
lyra-table-2          Lyra, section 5.1, first example: jobs A and B on 8 workers; mean JCT 41.67 s
                      (Tables 2 and 3 have three of its starts)
lyra-table-2-phase-2  the same jobs in Lyra's phase 2 alone, 4 workers left: reduction 110 s, where
                      A gets 5 workers, a start from which the mean JCT is 48.33 s
lyra-table-4          Lyra, section 5.1, second example: mean JCT 62 s (Table 4 has two starts)
lyra-figure-6         the second example with 2 GPUs a worker of A, as in Lyra's Figure 6, with 4
                      GPUs for extra workers: reduction 80 s
hadar-motivating      cluster (2 V100, 3 P100, 1 K80) and gangs (3, 2, 2; 80, 30, 50 epochs) of
                      Hadar's motivating example, from memory; rates, rounds and the objective
                      mean_jct are ours: 1,800 s, proved
hurt-first            an epoch of two racks and five gangs, after Dally: the gang that the network
                      has hurt most would take a whole rack across its machines; 4.9978, proved,
                      if it waits, and 2.6869 if it chooses first, as Dally has it
waiting-pays          two jobs on 6 workers whose base demands fit together, and the longer had
                      better wait: mean JCT 45 s, proved; 50 s if both start at once
====================  ===========================================================================
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from lyra_opt.core.loading import LoadedInstance


def library_instances() -> Mapping[str, Traversable]:
    """Return the instance files by name, in order of name."""
    return _files("", ".json")


def library_solutions() -> Mapping[str, Traversable]:
    """Return the files with the best solutions known, by name of the instance."""
    return _files("solutions", ".solution.json")


def load_library_instance(name: str) -> LoadedInstance:
    """Return the validated instance called `name`; KeyError if there is none."""
    from lyra_opt.core.loading import load_instance

    with as_file(library_instances()[name]) as path:
        return load_instance(path)


def _files(folder: str, suffix: str) -> dict[str, Traversable]:
    root = files(__name__)
    found = (root / folder if folder else root).iterdir()
    entries = {
        entry.name.removesuffix(suffix): entry for entry in found if entry.name.endswith(suffix)
    }
    return dict(sorted(entries.items()))
