"""The nodes on which a pod may run: node selectors, required node affinity, and taints.

Source: the Kubernetes documentation, "Assigning Pods to Nodes" and "Taints and Tolerations".
Affinities between pods and topology spread constraints are not modelled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Effect: TypeAlias = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
"""The effect of a taint on the pods that do not tolerate it."""

CLOSING_EFFECTS = ("NoSchedule", "NoExecute")
"""The effects of taints that keep pods without a toleration off a node."""

NAME_FIELD = "metadata.name"
"""The only field of a node that a required node affinity can name (``matchFields``)."""

Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
"""How a requirement compares a label with its values."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node: pods that do not tolerate it are not placed on the node."""

    key: str
    value: str = ""
    effect: Effect = "NoSchedule"


class PlacementNode(Protocol):
    """A node with the three properties that a placement reads."""

    @property
    def name(self) -> str:
        """The name of the node."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node."""

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints of the node."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; an empty effect matches all effects, an empty key all taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration matches a taint."""
        if self.effect not in ("", taint.effect):
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a node affinity or a selector: a label, an operator and its values."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, node: PlacementNode) -> bool:
        """Return whether a node meets the condition."""
        return self.accepts(node.name if self.key == NAME_FIELD else node.labels.get(self.key))

    def accepts(self, found: str | None) -> bool:
        """Return whether the value of the label meets the condition; None without the label."""
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case "Gt" | "Lt":
                try:
                    label, value = int(found or ""), int(self.values[0])
                except (ValueError, IndexError):
                    return False
                return label > value if self.operator == "Gt" else label < value


@dataclass(frozen=True, slots=True)
class Placement:
    """The nodes on which a pod may run.

    Parameters
    ----------
    selector
        Pairs of label and value that a node must have, sorted.
    terms
        The terms of the required node affinity. A node must meet all conditions of one term; no
        terms mean that every node will do.
    tolerations
        The taints that the pod tolerates.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def allows(self, node: PlacementNode) -> bool:
        """Return whether the pod may be placed on a node, apart from room and cordons."""
        if any(node.labels.get(key) != value for key, value in self.selector):
            return False
        if self.terms and not any(
            term and all(condition.holds(node) for condition in term) for term in self.terms
        ):
            return False
        return all(
            any(toleration.tolerates(taint) for toleration in self.tolerations)
            for taint in node.taints
            if taint.effect in CLOSING_EFFECTS
        )


ANYWHERE = Placement()
"""The placement of a pod without conditions and tolerations."""
