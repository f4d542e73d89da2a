"""What a scenario says of itself: `description.txt`, YAML whose writers were free with types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from steersman.errors import InvalidInputError

__all__ = ["Description", "read_description"]

_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_KINDS = ("runtime", "solution_quality")
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Description:
    """The parts that decide what the numbers of runs mean."""

    scenario_id: str
    measure: str  # the column of algorithm_runs.arff that is to be optimised
    is_runtime: bool  # else the quality of a solution
    maximize: bool
    cutoff: float | None  # seconds after which a run was stopped; there for every runtime


def read_description(path: Path) -> Description:
    """Read `description.txt`. Lists of one and single values mean the same, and so do texts and what they spell.

    Of several performance measures the first counts. Raises InvalidInputError, naming the key.
    """
    body = _load(path)
    where = str(path)
    kind = _first(body, "performance_type", where)
    if kind not in _KINDS:
        raise InvalidInputError(
            f"performance_type: expected one of {list(_KINDS)}, got {kind!r}", where=where
        )
    maximize = _truth(_first(body, "maximize", where), where)
    cutoff = _seconds(body.get("algorithm_cutoff_time"), where)
    is_runtime = kind == "runtime"
    if is_runtime and (maximize or cutoff is None):
        raise InvalidInputError(
            "a runtime: expected maximize false and algorithm_cutoff_time above 0, "
            f"got {maximize} and {body.get('algorithm_cutoff_time')!r}",
            where=where,
        )
    return Description(
        scenario_id=_first(body, "scenario_id", where),
        measure=_first(body, "performance_measures", where),
        is_runtime=is_runtime,
        maximize=maximize,
        cutoff=cutoff,
    )


def _load(path: Path) -> Mapping[str, Any]:
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(
            f"expected a scenario's description, got: {error.strerror}", where=str(path)
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"expected YAML in UTF-8, got: {error}", where=str(path)) from error
    if not isinstance(body, Mapping):
        raise InvalidInputError(
            f"expected a mapping of keys to values, got {type(body).__name__}", where=str(path)
        )
    return body


def _texts(value: object) -> list[str]:
    """Return a list, a value or nothing as a list of texts."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    return [str(item) for item in items]


def _first(body: Mapping[str, Any], key: str, where: str) -> str:
    texts = _texts(body.get(key))
    if not texts or not texts[0]:
        raise InvalidInputError(f"{key}: expected a value, got {body.get(key)!r}", where=where)
    return texts[0]


def _truth(text: str, where: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise InvalidInputError(f"maximize: expected true or false, got {text!r}", where=where)
    return _TRUTHS[text.lower()]


def _seconds(value: object, where: str) -> float | None:
    if value is None or value == _UNKNOWN:
        return None
    try:
        seconds = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise InvalidInputError(
            f"algorithm_cutoff_time: expected a number above 0 or ?, got {value!r}", where=where
        )
    return seconds
