"""Calibration files: which parameters of which scenario, to meet which figures, as TOML.

``experiments/calibrations`` holds those with names, each with its frozen result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, read_text, unknown_key
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.fields import Table, key, parsed
from lyra_opt.core.rules import Anything, Integer, Line, ListOf, Name, Named, Number, Seeds, Text
from lyra_opt.experiments.calibration import MOST_TRIALS
from lyra_opt.experiments.calibration.figures import require_figure
from lyra_opt.simulation.queues import FIRST_COME, OVERTAKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CALIBRATION_FORMAT = "lyra-opt/calibration"
CALIBRATION_VERSION = 1
CALIBRATIONS = Path(__file__).parent.parent / "calibrations"
SUFFIX = ".toml"
LARGEST_FILE_BYTES = 2**20
LARGEST_RESULT_BYTES = 2**24

MOST_SEEDS = 1000


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """A figure that is to be met."""

    measure: str = key(
        Line(),
        "queue_mean_s, queue_pNN_s, jct_mean_s, jct_pNN_s, training_usage or "
        "training_usage_while_submitting",
    )
    value: float = key(Number(above=True), "as published")
    tolerance: float = key(Number(above=True), "how far it may be missed, relative to it", 0.1)

    def __post_init__(self) -> None:
        require_figure("measure", self.measure)


@dataclass(frozen=True, kw_only=True)
class ParameterTable:
    """A whole number that is chosen."""

    path: str = key(Line(), 'of the scenario, such as "jobs.parameters.days"', named="key")
    least: int = key(Integer(), "least value")
    most: int = key(Integer(), "largest value")

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise FieldError("least", self.least, f"must be at most {self.most}, which is most")


@dataclass(frozen=True, kw_only=True)
class CalibrationTable:
    """The whole file."""

    format: str = key(Text((CALIBRATION_FORMAT,)), "of the file")
    version: int = key(Integer(CALIBRATION_VERSION, CALIBRATION_VERSION), "of the format")
    name: str = key(Name(), "what it is called")
    description: str = key(Text(), "what it is for", "")
    scenario: str = key(Line(), "whose cluster and generated jobs: a name, or a TOML file")
    changes: Mapping[str, Any] = key(Named(Anything()), "keys of the scenario that are other", {})
    queue: str = key(
        Text((FIRST_COME, OVERTAKING)), "order of the queue, on GPUs that are counted", OVERTAKING
    )
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "draws of jobs that it is calibrated on")
    judged: tuple[int, ...] = key(Seeds(MOST_SEEDS), "others that it is judged on")
    trials: int = key(Integer(1, MOST_TRIALS), "candidates that Optuna's sampler chooses")
    refinements: int = key(
        Integer(0, MOST_TRIALS), "candidates after these: small changes of the best so far", 0
    )
    targets: tuple[TargetTable, ...] = key(ListOf(Table(TargetTable)), "what is to be met")
    parameters: tuple[ParameterTable, ...] = key(ListOf(Table(ParameterTable)), "what is chosen")

    def __post_init__(self) -> None:
        both = sorted(set(self.seeds) & set(self.judged))
        if both:
            raise FieldError("judged", list(self.judged), f"must not hold {both[0]}, one of seeds")
        for name, values in (
            ("targets", [each.measure for each in self.targets]),
            ("parameters", [each.path for each in self.parameters]),
        ):
            if not values:
                raise FieldError(name, values, "must not be empty")
            if len(set(values)) < len(values):
                raise FieldError(name, values, "must not have one twice")


def calibration_names() -> list[str]:
    """Return the names of those that come along."""
    return sorted(path.stem for path in CALIBRATIONS.glob(f"*{SUFFIX}"))


def frozen_result(name: str) -> dict[str, Any]:
    """Return the result of a calibration that comes along; the keys of ``calibrate --json``."""
    text = read_text(str(CALIBRATIONS / f"{name}.json"), LARGEST_RESULT_BYTES)
    found: dict[str, Any] = json.loads(text)
    return found


def load_calibration(name_or_path: str) -> tuple[CalibrationTable, str]:
    """Return a calibration and where it is from.

    Raises
    ------
    UserError
        If there is none called so, or something in it is wrong; names file, field and rule.
    """
    path = Path(name_or_path)
    if not (name_or_path.endswith(SUFFIX) or "/" in name_or_path):
        known = calibration_names()
        if name_or_path not in known:
            rule = unknown_key(name_or_path, known, noun="calibration")
            raise UserError(f"calibration {name_or_path!r}: {rule} (a file ends in {SUFFIX})")
        path = CALIBRATIONS / f"{name_or_path}{SUFFIX}"
    text = read_text(str(path), LARGEST_FILE_BYTES)
    try:
        return parsed(CalibrationTable, parse_toml(text, str(path), "a calibration")), str(path)
    except FieldError as error:
        raise InputError(str(path), str(error)) from None
