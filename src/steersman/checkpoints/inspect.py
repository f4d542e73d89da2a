"""A checkpoint in words, for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

from steersman.checkpoints.format import LoadedCheckpoint

__all__ = ["checkpoint_facts", "describe_checkpoint"]

_WIDTH = 80


def checkpoint_facts(loaded: LoadedCheckpoint) -> dict[str, Any]:
    """Return all that the file holds except the numbers of its tensors, as JSON."""
    policy = loaded.policy
    return {
        "sha256": loaded.sha256,
        "digest": loaded.digest,
        "size_bytes": loaded.size,
        "policy": policy.stored_config(),
        "catalogue": list(policy.catalogue.ids),
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
        "binding": dict(loaded.binding),
        "provenance": dict(loaded.provenance),
    }


def describe_checkpoint(loaded: LoadedCheckpoint) -> str:
    """Return the facts as indented lines, long ones wrapped."""
    return "\n".join(_lines(checkpoint_facts(loaded), ""))


def _lines(body: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in body.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for index, item in enumerate(value):
                yield f"{indent}{key} {index + 1}:"
                yield from _lines(item, indent + "  ")
        else:
            yield fill(
                f"{key}: {_shown(value)}", _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    "
            )


def _shown(value: object) -> str:
    if isinstance(value, list | Mapping):
        return ", ".join(_shown(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
