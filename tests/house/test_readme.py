"""What the README shows, runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.house.rules import ROOT
from tests.support.commands import BIN, run

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the Python of the README prints, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


def test_the_example_runs(example: str, tmp_path: Path) -> None:
    action, propensity = example.split()
    # Neither of the two feasible actions was tried before, so both are in the greedy set and equally likely.
    assert action in {"firm", "split"}
    assert float(propensity) == pytest.approx(0.5)
    assert (tmp_path / "learning.db").exists()


@pytest.mark.usefixtures("example")
def test_the_commands_run_on_what_the_example_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [block for block in blocks("sh") if "steersman decide" in block]
    monkeypatch.setenv(*re.findall(r"^export (\w+)=(.+)$", block, re.MULTILINE)[0])
    decision = ""
    for line in re.findall(r"^steersman (.+)$", block, re.MULTILINE):
        words = [decision if word == "DECISION" else word for word in shlex.split(line, comments=True)]
        done = run(BIN / "steersman", *words, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        decision = json.loads(done.stdout).get("decision_id", decision)
    assert decision


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_the_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
