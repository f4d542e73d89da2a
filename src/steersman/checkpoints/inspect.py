"""A checkpoint in words, for a person."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from steersman.checkpoints.binding import DATASET_BINDING
from steersman.checkpoints.format import LoadedCheckpoint
from steersman.policies.ranking import FixedRankingPolicy

__all__ = ["checkpoint_facts", "describe_checkpoint"]

_WIDTH = 80
_MOST_NAMED = 8  # entries of a list or an object, unless all are asked for
_MOST_LINES = 4  # entries that take a line or more each
_ORDER = (
    *("name", "verdict", "sentence", "metrics", "fitted_metrics", "evidence", "cross_validation", "fallback"),
    *(
        "by_scene",
        "at_random",
        "policy",
        "best_fixed",
        "hindsight",
        "uniform",
        "oracle",
        "regret",
        "interval",
    ),
    *("low", "high", "mean_cost", "difference", "difference_interval", "gap_closed", "gap_closed_interval"),
    *(
        "row_count",
        "scene_count",
        "fixed",
        "hyper_parameters",
        "fitted_hyper_parameters",
        "requested",
        "trials",
    ),
    *("seed", "target_normalisation", "profile", "row_schema", "duplicate_rows"),
)
"""What a person asks first; whatever else there is follows in the order of its names."""


def checkpoint_facts(loaded: LoadedCheckpoint) -> dict[str, Any]:
    """Return all that the file holds except the numbers of its tensors, as JSON."""
    policy = loaded.policy
    order = {"order": list(policy.order())} if isinstance(policy, FixedRankingPolicy) else {}
    return {
        "sha256": loaded.sha256,
        "digest": loaded.digest,
        "size_bytes": loaded.size,
        "policy": policy.stored_config() | order,
        "catalogue": list(policy.catalogue.ids),
        "binding": dict(loaded.binding),
        "provenance": dict(loaded.provenance),
        "feature_schema": policy.schema.to_json(),
        "normalisation": policy.normalisation(),
        "tensors": {
            name: {
                "dtype": array.dtype.name,
                "shape": list(array.shape),
                "least": float(array.min()) if array.size else None,
                "most": float(array.max()) if array.size else None,
            }
            for name, array in sorted(policy.tensors().items())
        },
        "probe_rows": loaded.probe_rows,
    }


def describe_checkpoint(loaded: LoadedCheckpoint, *, whole: bool = False) -> str:
    """Return what it is, what it is worth and where it is from, and then all facts as indented lines.

    Long lists and tables are shortened unless `whole`.
    """
    first = [_paragraph(name, text) for name, text in _summary(loaded).items()]
    facts = checkpoint_facts(loaded)
    rest = [line for key, value in facts.items() for line in _lines(key, value, "", whole=whole)]
    return "\n".join([*first, "", *rest])


def _summary(loaded: LoadedCheckpoint) -> dict[str, str]:
    """Return the six lines on top. Nothing but its schema is certain of a provenance."""
    made = loaded.provenance
    versions = made.get("versions")
    binding = {key: value for key, value in loaded.binding.items() if key not in DATASET_BINDING}
    return {
        "what": _what(loaded),
        "verdict": _told(made, "sentence"),
        "held-out regret": _regret(made),
        "data": _data(made),
        "made for": _phrase(binding) or "nothing but these data",
        "written by": _phrase(versions) if isinstance(versions, Mapping) else "not told",
    }


def _what(loaded: LoadedCheckpoint) -> str:
    policy = loaded.policy
    sizes = f"{policy.kind} of {len(policy.catalogue)} actions and {len(policy.schema)} features"
    if isinstance(policy, FixedRankingPolicy):
        return f"{sizes}: plays {', else '.join(policy.order())}"
    return f"{sizes}: {_phrase(policy.traits())}"


def _regret(made: Mapping[str, Any]) -> str:
    """Return the figures that the verdict comes from: those of the folds, else of the scenes held out."""
    folds = _find(made, "cross_validation", "by_scene")
    judged = folds if folds is not None else made.get("evidence")
    if judged is None:
        return "none, as no scene was held out"
    by = "by folds, " if folds is not None else ""
    rows = f"{by}{_told(judged, 'row_count')} rows of {_told(judged, 'scene_count')} scenes"
    ours, fixed = _told(judged, "policy", "regret"), _told(judged, "best_fixed", "regret")
    action = _told(judged, "best_fixed", "name")
    if made.get("fallback") is True:
        return f"{fixed}, that of always playing {action}; {ours} of the fit that gave way ({rows})"
    return f"{ours}, against {fixed} of always playing {action} ({rows})"


def _data(made: Mapping[str, Any]) -> str:
    scenes = [made.get(key) for key in ("training_scene_ids", "validation_scene_ids")]
    trained, held_out = (len(ids) if isinstance(ids, list) else "?" for ids in scenes)
    return (
        f"{_told(made, 'row_count')} rows, {trained} scenes trained on and {held_out} held out, profile "
        f"{_told(made, 'profile')}, data set {_told(made, 'teacher_dataset_hash')}"
    )


def _find(body: object, *path: str) -> object:
    for key in path:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def _told(body: object, *path: str) -> str:
    found = _find(body, *path)
    return "not told" if found is None else _shown(found)


def _lines(key: str, value: object, indent: str, *, whole: bool) -> Iterator[str]:
    deeper = indent + "  "
    if isinstance(value, Mapping) and value and (whole or not _is_flat(value)):
        yield f"{indent}{key}:"
        names = _ordered(value)
        most = len(names) if whole or key == "provenance" else _most(value)
        for name in names[:most]:
            yield from _lines(name, value[name], deeper, whole=whole)
        yield from _more(len(names) - most, deeper)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        most = len(value) if whole else _MOST_LINES
        shown = value if whole else _apart(sorted(value, key=_rank))
        for index, item in enumerate(shown[:most]):
            yield from _lines(f"{key} {index + 1}", item, indent, whole=whole)
        yield from _more(len(value) - most, indent)
    else:
        yield _paragraph(key, _shown(value) if whole else _short(value), indent)


def _most(value: Mapping[str, Any]) -> int:
    """Return how many entries of an object to show: those of a table are cut, those of a record never."""
    table = len(value) > _MOST_NAMED and len({type(item) for item in value.values()}) == 1
    return _MOST_NAMED if table else len(value)


def _more(count: int, indent: str) -> Iterator[str]:
    if count > 0:
        yield f"{indent}and {count:,} more: see --all"


def _is_flat(value: Mapping[str, Any]) -> bool:
    """Return whether one paragraph can hold an object: a record of single values, or of small records of them."""
    return _most(value) == len(value) and all(
        not isinstance(item, list | Mapping)
        or (len(item) <= 3 and not any(isinstance(part, list | Mapping) for part in _parts(item)))
        for item in value.values()
    )


def _parts(item: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    return list(item.values()) if isinstance(item, Mapping) else list(item)


def _ordered(body: Mapping[str, Any]) -> list[str]:
    return sorted(body, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


def _rank(item: object) -> float:
    """Return what a table is sorted by when it is shortened: least regret first."""
    regret = _find(item, "regret")
    return float(regret) if isinstance(regret, int | float) else math.inf


def _apart(items: list[Any]) -> list[Any]:
    """Return records without what is the same in all of them: in a table, that is said once elsewhere or not at all."""
    if len(items) < 2 or not all(isinstance(item, Mapping) for item in items):
        return items
    first = items[0]
    keys = [key for key in first if any(item.get(key) != first[key] for item in items)]
    columns = {key: _apart([item.get(key) for item in items]) for key in keys}
    return [{key: columns[key][place] for key in keys} for place in range(len(items))]


def _paragraph(key: str, text: str, indent: str = "") -> str:
    return fill(
        f"{key}: {text}",
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_on_hyphens=False,
    )


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return _phrase(value) or "none"
    if isinstance(value, list) and len(value) > _MOST_NAMED:
        return f"{_shown(value[:_MOST_NAMED])} and {len(value) - _MOST_NAMED:,} more"
    return _shown(value)


def _phrase(body: Mapping[str, Any]) -> str:
    """Return an object on one line: `name value, name value`."""
    return ", ".join(
        f"{name} ({inner})" if isinstance(body[name], list | Mapping) else f"{name} {inner}"
        for name in _ordered(body)
        for inner in [_phrase(body[name]) if isinstance(body[name], Mapping) else _shown(body[name])]
    )


def _shown(value: object) -> str:
    if isinstance(value, list | Mapping):
        return ", ".join(_shown(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
