"""The page about teacher rows runs as it stands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from steersman.teacher.dataset import load_teacher_dataset
from steersman.teacher.inspection import inspect_rows
from tests.house.rules import ROOT


def test_the_example_of_an_own_profile_makes_rows_that_hold(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "teacher-rows.md").read_text(encoding="utf-8")
    (metadata,) = [
        block for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if '"profile"' in block
    ]
    (script,) = [
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "json.dumps" in block
    ]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "metadata.json").write_text(metadata)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    dataset = load_teacher_dataset(tmp_path / "rows")
    assert (len(dataset), len(dataset.scene_ids)) == (60, 12)
    assert dataset.profile.name == json.loads(metadata)["profile"]["name"]
    found = inspect_rows(tmp_path / "rows")
    assert (found.advantages.rows, found.indicators.rows) == (0, 0)
    assert 0 < found.missing_features["traffic"] < 60
