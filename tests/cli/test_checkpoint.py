"""A checkpoint looked into from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ask, Run
from tests.support.fitted import BINDING, EVERY_KIND, PROVENANCE, save


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_all_of_it_is_told(tmp_path: Path, ask: Ask, run: Run, kind: str) -> None:
    sha256 = save(tmp_path / "policy.safetensors", EVERY_KIND[kind]())
    told = ask("checkpoint", "inspect", "policy.safetensors")
    assert told["sha256"] == sha256
    assert told["policy"]["kind"] == EVERY_KIND[kind]().kind
    assert (told["binding"], told["provenance"]) == (BINDING, PROVENANCE)
    short = run("checkpoint", "inspect", "policy.safetensors").stdout.splitlines()
    assert short[0].startswith(f"what: {EVERY_KIND[kind]().kind} of 3 actions and 3 features: ")
    assert f"sha256: {sha256}" in short
    shown = run("checkpoint", "inspect", "policy.safetensors", "--all").stdout.splitlines()
    assert f"sha256: {sha256}" in shown
    assert "catalogue: hold, push, yield" in shown
    assert "  names: gap, pace, is_late" in shown
    assert "    renderer: plain" in shown
    assert "  seed: 0" in shown


def test_a_damaged_file_is_refused(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "policy.safetensors"
    save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = run("checkpoint", "inspect", "policy.safetensors", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    told = json.loads(done.stderr)
    assert (told["error"], told["where"]) == ("InvalidCheckpointError", "policy.safetensors")
    assert told["message"].startswith("digest: expected")


@pytest.mark.parametrize("name", ["nowhere.safetensors", "."])
def test_what_is_no_file_is_refused(run: Run, name: str) -> None:
    done = run("checkpoint", "inspect", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"InvalidCheckpointError: {name}: " in done.stderr
