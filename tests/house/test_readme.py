"""What the README shows, runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.rules import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_example_runs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
    action, propensity = capsys.readouterr().out.split()
    # Neither of the two feasible actions was tried before, so both are in the greedy set and equally likely.
    assert action in {"firm", "split"}
    assert float(propensity) == pytest.approx(0.5)
    assert (tmp_path / "learning.db").exists()


def test_there_is_an_example() -> None:
    assert BLOCKS


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_the_commands_shown_are_targets(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
