"""What the instances of all problems have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from lyra_opt.core.fields import declared, key
from lyra_opt.core.rules import Text

if TYPE_CHECKING:
    import networkx
    from typing_extensions import TypeVar  # with defaults, which Python has from 3.13 on

    from lyra_opt.core.variant import Variant

    SolutionT_co = TypeVar("SolutionT_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    SolutionT_co = TypeVar("SolutionT_co", covariant=True)

UNNAMED = "unnamed"
"""What an instance is called that nobody has named."""


@declared(slots=False)
class ProblemInstance(ABC, Generic[SolutionT_co]):
    """The data of one decision, of a problem whose solutions are of type `SolutionT_co`."""

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
