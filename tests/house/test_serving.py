"""A process that decides and learns loads nothing that only fitting needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.rules import ROOT
from tests.support.commands import BIN, run

SERVE = """
import sys
from steersman import Steersman

with Steersman.open("{url}") as steersman:
    steersman.create_tenant("acme", {{"actions": ["a", "b"], "states": 2}})
    decision = steersman.decide("acme", 1, episode="deal")
    steersman.reward("acme", decision.decision_id, 0.5)
    steersman.close_episode("acme", "deal", 0.5)
assert decision.action in {{"a", "b"}}
print(sorted({{name.split(".")[0] for name in sys.modules}} & set({heavy!r})))
"""
HEAVY = ["matplotlib", "negmas", "pandas", "pyarrow", "scipy", "sklearn", "torch"]


@pytest.mark.parametrize("planted", ["", "import torch.nn\n"], ids=["as it is", "with torch"])
def test_a_served_decision_needs_no_torch(planted: str, sqlite_url: str, tmp_path: Path) -> None:
    program = tmp_path / "serve.py"
    program.write_text(planted + SERVE.format(url=sqlite_url, heavy=HEAVY))
    done = run(BIN / "python", program, cwd=ROOT)
    assert done.stderr == ""
    assert ("torch" in done.stdout) == bool(planted)
    assert planted or done.stdout == "[]\n"
