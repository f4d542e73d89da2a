"""Checkpoints: write one, load one, refuse one."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.checkpoints.binding import binding_mismatches, check_dataset_binding
from steersman.checkpoints.encoding import decode, encode
from steersman.domain.canonical import canonical_json
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.errors import (
    BindingMismatchError,
    InvalidCheckpointError,
    InvalidInputError,
    InvalidSpecError,
)
from steersman.files import check_absent, new_file
from steersman.policies.fitted import FittedPolicy
from steersman.policies.kinds import POLICY_KINDS

__all__ = [
    "MAX_FILE_BYTES",
    "POLICY_SCHEMA",
    "PROBE_TOLERANCE",
    "TRAINING_SCHEMA",
    "LoadedCheckpoint",
    "load_checkpoint",
    "save_checkpoint",
]

POLICY_SCHEMA = "steersman.policy.v1"
TRAINING_SCHEMA = "steersman.policy_training.v1"
MAX_FILE_BYTES = 2**30
PROBE_TOLERANCE = 1e-5  # of the largest value of a probe row, and at least so much

_FIELDS = (
    "schema",
    "policy",
    "catalogue",
    "feature_schema",
    "normalisation",
    "binding",
    "provenance",
    "probe_rows",
    "digest",
)
_KINDS = {kind: policy for kind, policy in POLICY_KINDS.items() if issubclass(policy, FittedPolicy)}


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCheckpoint:
    """A policy that was checked in every respect, and what its file says of it."""

    policy: FittedPolicy
    binding: Mapping[str, Any] = field(repr=False)
    provenance: Mapping[str, Any] = field(repr=False)
    probe_rows: int  # how many were replayed
    digest: str  # SHA-256 over everything else in the file
    sha256: str  # of the whole file
    size: int  # bytes


def save_checkpoint(
    path: Path,
    policy: FittedPolicy,
    *,
    binding: Mapping[str, Any],
    provenance: Mapping[str, Any],
    probe_features: NDArray[Any],
) -> str:
    """Write a checkpoint and return the SHA-256 of the file, 64 hexadecimal digits.

    `probe_features`: [n, D], at least one row, whose values are kept and replayed at every load. The file is read
    back before it takes its name; a missing folder is made. Raises OutputExistsError, and InvalidCheckpointError when
    a loader would refuse what is written.
    """
    check_absent(path)
    payload: dict[str, Any] = {
        "schema": POLICY_SCHEMA,
        "policy": policy.stored_config(),
        "catalogue": list(policy.catalogue.ids),
        "feature_schema": policy.schema.to_json(),
        "normalisation": policy.normalisation(),
        "binding": dict(binding),
        "provenance": dict(provenance),
        "probe_rows": [_probe(policy, row) for row in probe_features],
        "digest": "",
    }
    tensors = policy.tensors()
    _check_size(sum(array.nbytes for array in tensors.values()))
    try:
        canonical_json(payload)
    except (TypeError, ValueError) as error:
        raise InvalidCheckpointError(f"binding or provenance: expected finite JSON ({error})") from error
    payload["digest"] = hashlib.sha256(encode(payload, tensors)).hexdigest()
    data = encode(payload, tensors)
    _check_size(len(data))
    _load(data)
    with new_file(path) as part:
        part.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def load_checkpoint(path: Path, *, expected_binding: Mapping[str, Any] | None = None) -> LoadedCheckpoint:
    """Return the policy in `path`, with NumPy alone.

    `expected_binding` must be a part of the checkpoint's, objects being compared recursively. Raises
    InvalidCheckpointError for a file that is damaged, hostile, or computes other values here than where it was
    made; BindingMismatchError, which lists every difference.
    """
    data = _read(path)
    try:
        loaded = _load(data)
    except InvalidCheckpointError as error:
        raise InvalidCheckpointError(error.message, where=str(path), hint=error.hint) from error
    lines = binding_mismatches(expected_binding or {}, loaded.binding)
    if lines:
        raise BindingMismatchError("made for something else: " + "; ".join(lines), where=str(path))
    return loaded


def _load(data: bytes) -> LoadedCheckpoint:
    payload, tensors = decode(data)
    if set(payload) != set(_FIELDS):
        raise InvalidCheckpointError(f"payload: expected the fields {sorted(_FIELDS)}, got {sorted(payload)}")
    if payload["schema"] != POLICY_SCHEMA:
        raise InvalidCheckpointError(f"schema: expected {POLICY_SCHEMA!r}, got {payload['schema']!r}")
    digest = hashlib.sha256(encode(payload | {"digest": ""}, tensors)).hexdigest()
    if payload["digest"] != digest:
        raise InvalidCheckpointError(
            f"digest: expected {payload['digest']!r}, and the content has {digest!r}"
        )
    _check_objects(payload)
    try:
        catalogue = ActionCatalogue(tuple(payload["catalogue"]))
        schema = FeatureSchema.from_json(payload["feature_schema"])
    except (InvalidInputError, InvalidSpecError, TypeError) as error:
        raise InvalidCheckpointError(f"payload: {error}") from error
    kind = payload["policy"].get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidCheckpointError(f"policy.kind: expected one of {sorted(_KINDS)}, got {kind!r}")
    policy = _KINDS[kind].from_parts(catalogue, schema, payload["policy"], tensors)
    if canonical_json(payload["normalisation"]) != canonical_json(policy.normalisation()):
        raise InvalidCheckpointError(
            f"normalisation: expected {policy.normalisation()}, got {payload['normalisation']}"
        )
    _replay(policy, payload["probe_rows"])
    return LoadedCheckpoint(
        policy,
        payload["binding"],
        payload["provenance"],
        len(payload["probe_rows"]),
        digest,
        hashlib.sha256(data).hexdigest(),
        len(data),
    )


def _check_objects(payload: Mapping[str, Any]) -> None:
    for name in ("policy", "feature_schema", "binding", "provenance"):
        if not isinstance(payload[name], dict):
            raise InvalidCheckpointError(
                f"{name}: expected a JSON object, got {type(payload[name]).__name__}"
            )
    check_dataset_binding(payload["binding"])
    version = payload["feature_schema"].get("version")
    version = payload["binding"].get("feature_schema_version", version)
    if version != payload["feature_schema"].get("version"):
        raise InvalidCheckpointError(
            f"binding.feature_schema_version: expected {payload['feature_schema'].get('version')!r}, got {version!r}"
        )
    if payload["provenance"].get("schema") != TRAINING_SCHEMA:
        raise InvalidCheckpointError(f"provenance.schema: expected {TRAINING_SCHEMA!r}")
    if not isinstance(payload["catalogue"], list) or not isinstance(payload["probe_rows"], list):
        raise InvalidCheckpointError("catalogue and probe_rows: expected lists")
    if not payload["probe_rows"]:
        raise InvalidCheckpointError("probe_rows: expected at least one, got none")


def _probe(policy: FittedPolicy, row: NDArray[Any]) -> dict[str, Any]:
    features = [None if np.isnan(value) else float(value) for value in row]
    return {"features": features, "values": policy.all_values(features)}


def _replay(policy: FittedPolicy, probes: list[Any]) -> None:
    for index, probe in enumerate(probes):
        where = f"probe_rows[{index}]"
        try:
            expected = np.array(probe["values"], dtype=np.float64)
            got = np.array(policy.all_values(probe["features"]))
        except (InvalidInputError, KeyError, TypeError, ValueError) as error:
            raise InvalidCheckpointError(
                f"{where}: expected features and values, and got {error!r}"
            ) from error
        if expected.shape != got.shape:
            raise InvalidCheckpointError(f"{where}: expected {len(got)} values, got {len(expected)}")
        allowed = PROBE_TOLERANCE * max(1.0, float(np.abs(expected).max()))
        if not np.abs(expected - got).max() <= allowed:
            raise InvalidCheckpointError(
                f"{where}: expected {expected.tolist()}, and computed {got.tolist()} here",
                hint="the arithmetic of this machine differs from that of the machine that wrote the file",
            )


def _check_size(size: int, *, where: str | None = None) -> None:
    if size > MAX_FILE_BYTES:
        raise InvalidCheckpointError(
            f"expected at most {MAX_FILE_BYTES:,} bytes, got {size:,}",
            where=where,
            hint="a forest of fewer trees, or with more rows in a leaf, takes less",
        )


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.EMLINK)
        reason = "expected a file, got a symbolic link" if link else f"cannot be opened: {error.strerror}"
        raise InvalidCheckpointError(reason, where=str(path)) from error
    except ValueError as error:  # a NUL in the name
        raise InvalidCheckpointError(f"cannot be opened: {error}", where=repr(str(path))) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidCheckpointError("expected a regular file", where=str(path))
        _check_size(status.st_size, where=str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
