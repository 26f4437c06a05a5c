"""What the instances of all problems have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from lyra_opt.core.fields import declared, key
from lyra_opt.core.rules import Text

if TYPE_CHECKING:
    from typing import Self

    import networkx
    import pandas as pd
    from typing_extensions import TypeVar  # with defaults, which Python has from 3.13 on

    from lyra_opt.core.variant import Variant

    SolutionT = TypeVar("SolutionT", default=Any)
else:
    from typing import TypeVar

    SolutionT = TypeVar("SolutionT")

UNNAMED = "unnamed"
"""What an instance is called that nobody has named."""


@declared(slots=False)
class ProblemInstance(ABC, Generic[SolutionT]):
    """The data of one decision, of a problem whose solutions are of type `SolutionT`."""

    problem: ClassVar[str]
    """The name of the problem, such as ``reclaim``."""

    name: str = key(
        Text(), "its name, used to match solutions", default=UNNAMED, always_written=True
    )

    @property
    @abstractmethod
    def variant(self) -> Variant:
        """What is asked of it: its objective or, for reclaiming, its semantics."""

    @abstractmethod
    def to_networkx(self) -> networkx.Graph:
        """Return the instance as a graph, for analysis and drawing."""

    def to_frames(self) -> dict[str, pd.DataFrame]:
        """Return each list of the instance as a data frame, by name, which `from_frames` takes.

        A row is an entry and a column a field. What a list inside of another holds, such as the
        workers of jobs, has a frame of its own, whose first column names where it belongs. Time
        O(entries times fields).
        """
        from lyra_opt.core.frames import frames_of

        return frames_of(self)

    @classmethod
    def from_frames(cls, **fields: Any) -> Self:
        """Return the instance whose lists are data frames, and whose other fields are given too.

        A cell that is missing has the default of its field. A whole float is an integer where one
        is asked for: pandas makes floats of a column of integers as soon as one is missing. A
        column such as ``gpus.V100`` is an entry of a mapping, and an index that is called like a
        field a column. A list inside of another, such as the workers of jobs, is a frame with a
        column that names where each row belongs, or a column of lists. Time O(cells).

        >>> import pandas as pd
        >>> import lyra_opt as lo
        >>> lo.reclaim.Instance.from_frames(
        ...     servers=pd.DataFrame({"id": ["a", "b"], "gpus": 8}),
        ...     jobs=pd.DataFrame({"id": ["j"], "weight": [5]}),
        ...     workers=pd.DataFrame({"job": ["j", "j"], "server": ["a", "b"], "base": [1, 2]}),
        ...     reclaim_servers=1,
        ... ).jobs[0].base_workers
        3

        Parameters
        ----------
        fields
            As of the class; frames for lists, whatever `to_frames` returns.

        Raises
        ------
        FieldError
            If a rule is broken; names frame, row (from 0) and column: ``workers[3].server``.
        """
        from lyra_opt.core.frames import of_frames

        return of_frames(cls, fields)
