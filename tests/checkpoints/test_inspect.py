from __future__ import annotations

import json
from pathlib import Path

import pytest

from steersman.checkpoints.format import load_checkpoint
from steersman.checkpoints.inspect import checkpoint_facts, describe_checkpoint
from tests.support.fitted import BINDING, EVERY_KIND, PROVENANCE, save


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_everything_but_the_numbers_of_tensors_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "policy.safetensors"
    sha256 = save(path, EVERY_KIND[kind]())
    facts = json.loads(json.dumps(checkpoint_facts(load_checkpoint(path)), allow_nan=False))
    assert facts["sha256"] == sha256
    assert facts["size_bytes"] == path.stat().st_size
    assert facts["policy"]["kind"] == EVERY_KIND[kind]().kind
    assert facts["catalogue"] == ["hold", "push", "yield"]
    assert facts["feature_schema"]["names"] == ["gap", "pace", "is_late"]
    assert facts["binding"] == BINDING
    assert facts["provenance"] == PROVENANCE
    assert facts["probe_rows"] == 2
    assert set(facts["tensors"]) == set(EVERY_KIND[kind]().tensors())


def test_a_person_reads_it_in_lines(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    save(path, EVERY_KIND["ranking"]())
    text = describe_checkpoint(load_checkpoint(path))
    lines = text.splitlines()
    assert "catalogue: hold, push, yield" in lines
    assert "  kind: fixed_ranking" in lines
    assert "  protocol:" in lines
    assert "    samples: 16" in lines
    values = lines.index("  values:")
    assert lines[values + 1 : values + 5] == [
        "    dtype: float64",
        "    shape: 3",
        "    least: -1",
        "    most: 1",
    ]
    assert all(len(line) <= 80 for line in lines)
