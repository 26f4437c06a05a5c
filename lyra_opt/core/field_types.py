"""Types of declared fields that take more than they keep, for type checkers alone.

A list of dictionaries may be given where tuples of objects are kept, and a name where a variant is.
Nothing of it is there when programs run: annotations are never evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from lyra_opt.core.variant import Variant

KeptT = TypeVar("KeptT")
GivenT = TypeVar("GivenT")
EntryT = TypeVar("EntryT")
VariantT = TypeVar("VariantT", bound="Variant")


class Field(Generic[KeptT, GivenT]):
    """A field that is given as one type and read as another."""

    @overload
    def __get__(self, instance: None, owner: type) -> Field[KeptT, GivenT]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> KeptT: ...
    def __get__(self, instance: object, owner: type) -> Any:
        """Return what is kept."""

    def __set__(self, instance: object, value: GivenT) -> None:
        """Take what is given."""


class Frame(Protocol):
    """What type checkers know of a data frame, whether they know pandas or not."""

    @property
    def columns(self) -> Any:
        """Its columns."""


TupleOf: TypeAlias = Field[tuple[EntryT, ...], "Sequence[EntryT] | np.ndarray"]
"""Scalars, or an array of them."""

TablesOf: TypeAlias = Field[
    tuple[EntryT, ...], "Sequence[EntryT | Mapping[str, Any]] | Sequence[EntryT] | Frame"
]
"""Objects, each of which may be given as a document holds it, or all of them as a data frame."""

VariantOf: TypeAlias = Field[VariantT, VariantT | str]
"""A member of an enumeration, or its name."""
