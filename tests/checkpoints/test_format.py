from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from steersman.checkpoints.format import load_checkpoint, save_checkpoint
from steersman.errors import (
    BindingMismatchError,
    InvalidCheckpointError,
    InvalidInputError,
    OutputExistsError,
)
from steersman.files import check_absent
from tests.support.fitted import (
    BINDING,
    EVERY_KIND,
    NULLABLE_SCHEMA,
    PROBES,
    PROVENANCE,
    forest,
    mlp,
    save,
)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_policy_comes_back_as_it_was_saved(tmp_path: Path, kind: str) -> None:
    policy = EVERY_KIND[kind]()
    path = tmp_path / "new" / "folder" / "policy.safetensors"
    sha256 = save(path, policy)
    loaded = load_checkpoint(path)
    assert sha256 == loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert type(loaded.policy) is type(policy)
    assert loaded.policy.stored_config() == policy.stored_config()
    assert loaded.policy.catalogue == policy.catalogue
    assert loaded.policy.schema == policy.schema
    for name, array in policy.tensors().items():
        np.testing.assert_array_equal(loaded.policy.tensors()[name], array, strict=True)
    assert loaded.binding == BINDING
    assert loaded.provenance == PROVENANCE
    assert loaded.probe_rows == len(PROBES)
    assert loaded.policy.all_values(PROBES[0]) == policy.all_values(PROBES[0])


def test_what_was_loaded_is_shown_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    sha256 = save(path, EVERY_KIND["ranking"]())
    assert repr(load_checkpoint(path)).startswith(
        "LoadedCheckpoint(policy=FixedRankingPolicy(actions=3, features=3, plays='push', declared_work_units=3, "
        "epsilon=0.1), probe_rows=2, digest='"
    )
    assert sha256 in repr(load_checkpoint(path))


def test_missing_features_may_stand_in_probe_rows(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    probes = np.array([[0.5, np.nan, 1.0]])
    binding = BINDING | {"feature_schema_version": NULLABLE_SCHEMA.version}
    save_checkpoint(path, mlp(NULLABLE_SCHEMA), binding=binding, provenance=PROVENANCE, probe_features=probes)
    loaded = load_checkpoint(path)
    assert loaded.policy.all_values([0.5, None, 1.0]) == mlp(NULLABLE_SCHEMA).all_values(probes[0])


def test_the_same_policy_makes_the_same_bytes(tmp_path: Path) -> None:
    assert save(tmp_path / "a.safetensors") == save(tmp_path / "b.safetensors")


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_safetensors_library_reads_the_file(tmp_path: Path, kind: str) -> None:
    safetensors = pytest.importorskip("safetensors")
    path = tmp_path / "policy.safetensors"
    save(path, EVERY_KIND[kind]())
    with safetensors.safe_open(path, framework="numpy") as file:
        names = set(file.keys())
        arrays = {name: file.get_tensor(name) for name in names}
        payload = json.loads(file.metadata()["steersman"])
    expected = EVERY_KIND[kind]().tensors()
    assert names == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    assert set(payload) == {
        "schema",
        "policy",
        "catalogue",
        "feature_schema",
        "normalisation",
        "binding",
        "provenance",
        "probe_rows",
        "digest",
    }
    assert payload["schema"] == "steersman.policy.v1"
    assert payload["catalogue"] == ["hold", "push", "yield"]


def test_loading_and_choosing_needs_no_extra(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    save(path)
    script = f"""
import sys
for name in ("torch", "sklearn", "safetensors", "pyarrow", "matplotlib"):
    sys.modules[name] = None  # an import of it fails
from pathlib import Path
from steersman.checkpoints.format import load_checkpoint
print(load_checkpoint(Path({str(path)!r})).policy.choose([0.5, -1.25, 1.0], ["push", "yield"]).action)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    values = mlp().all_values([0.5, -1.25, 1.0])
    assert result.stdout.strip() == ("push" if values[1] >= values[2] else "yield")


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"model_content_hash": "model-1"},
        {"protocol": {"samples": 16}},
        {"protocol": {}},
        BINDING,
    ],
)
def test_a_part_of_the_binding_may_be_expected(tmp_path: Path, expected: dict[str, object]) -> None:
    path = tmp_path / "policy.safetensors"
    save(path)
    assert load_checkpoint(path, expected_binding=expected).binding == BINDING


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        ({"model_content_hash": "model-2"}, ['model_content_hash: expected "model-2", found "model-1"']),
        ({"protocol": {"samples": 16.0}}, ["protocol.samples: expected 16.0, found 16"]),
        ({"protocol": {"samples": True}}, ["protocol.samples: expected true, found 16"]),
        ({"protocol": "plain"}, ['protocol: expected "plain", found {"renderer":"plain","samples":16}']),
        ({"model_content_hash": {"a": 1}}, ['model_content_hash: expected {"a":1}, found "model-1"']),
        ({"other": None}, ["other: expected null, found nothing"]),
        (
            {"protocol": {"renderer": "fancy", "samples": 8}, "model_content_hash": ""},
            [
                'model_content_hash: expected "", found "model-1"',
                'protocol.renderer: expected "fancy", found "plain"',
                "protocol.samples: expected 8, found 16",
            ],
        ),
    ],
)
def test_every_difference_of_the_binding_is_listed(
    tmp_path: Path, expected: dict[str, object], lines: list[str]
) -> None:
    path = tmp_path / "policy.safetensors"
    save(path)
    with pytest.raises(BindingMismatchError) as caught:
        load_checkpoint(path, expected_binding=expected)
    assert caught.value.message == "made for something else: " + "; ".join(lines)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("taken", ["policy.safetensors", "policy.safetensors.part"])
@pytest.mark.parametrize("how", ["file", "folder", "dangling link"])
def test_an_output_that_is_there_is_refused(tmp_path: Path, taken: str, how: str) -> None:
    path, there = tmp_path / "policy.safetensors", tmp_path / taken
    if how == "file":
        there.write_bytes(b"kept")
    elif how == "folder":
        there.mkdir()
    else:
        there.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExistsError, match=re.escape(str(there))):
        check_absent(path)
    with pytest.raises(OutputExistsError):
        save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [taken]
    if how == "file":
        assert there.read_bytes() == b"kept"


def test_what_a_loader_would_refuse_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    for binding, provenance in (
        ({}, PROVENANCE),
        (BINDING, {}),
        (BINDING, PROVENANCE | {"loss": float("nan")}),
        (BINDING | {"feature_schema_version": "another"}, PROVENANCE),
        (BINDING | {"teacher_dataset_hash": "?"}, PROVENANCE),
        (BINDING, PROVENANCE | {"object": object()}),
    ):
        with pytest.raises(InvalidCheckpointError):
            save_checkpoint(path, mlp(), binding=binding, provenance=provenance, probe_features=PROBES)
    with pytest.raises(InvalidCheckpointError, match="probe_rows: expected at least one"):
        save_checkpoint(path, mlp(), binding=BINDING, provenance=PROVENANCE, probe_features=PROBES[:0])
    broken = mlp()
    broken.layers.hidden_bias[0] = np.nan
    with pytest.raises(InvalidCheckpointError):
        save_checkpoint(path, broken, binding=BINDING, provenance=PROVENANCE, probe_features=PROBES)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_loaders_would_find_too_large_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.safetensors"
    save(path)
    size = path.stat().st_size
    numbers = sum(array.nbytes for array in mlp().tensors().values())
    for limit, got in ((size - 1, size), (numbers - 1, numbers)):  # the whole file, or its numbers alone
        monkeypatch.setattr("steersman.checkpoints.format.MAX_FILE_BYTES", limit)
        with pytest.raises(InvalidCheckpointError, match=f"at most {limit:,} bytes, got {got:,}"):
            save(tmp_path / "other.safetensors")
    monkeypatch.setattr("steersman.checkpoints.format.MAX_FILE_BYTES", size)
    save(tmp_path / "third.safetensors")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["policy.safetensors", "third.safetensors"]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(InvalidInputError, match="No space left"):
        save(tmp_path / "policy.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_probe_rows_catch_other_arithmetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.safetensors"
    save(path)
    exact = np.tanh
    monkeypatch.setattr(np, "tanh", lambda x: exact(x) * (1.0 + 1e-3))
    with pytest.raises(InvalidCheckpointError, match=r"probe_rows\[0\]: expected .*, and computed"):
        load_checkpoint(path)


def test_a_forest_with_many_trees_loads(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    save(path, forest())
    # gap 0.5 <= 1, pace -1.25 <= 0: leaf 0; with the single leaf, the mean is (1.5, 0.5, 0) / 2.
    assert load_checkpoint(path).policy.all_values([0.5, -1.25, 1.0]) == [0.75, 0.25, 0.0]
