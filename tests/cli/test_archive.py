"""The commands about archives and the audit as a file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cli.conftest import Ask, Run


def test_an_archive_is_made_listed_and_told_of(ask: Ask, run: Run, tmp_path: Path) -> None:
    ask("tenant", "create", "acme", "--set", '{"actions": ["a"], "states": 1}')
    first = ask("decide", "acme", "-s", "0", "--id", "d")
    rewarded = ask("reward", "acme", "d", "0.5")
    assert ask("archive", "run", "acme", "--older-than", "1", "--output", "old")["decisions"] == 0
    done = ask("archive", "run", "acme", "--older-than", "0", "--output", "old")
    assert (done["decisions"], done["rewards"], done["learning_steps"]) == (1, 1, 1)
    files = ask("archive", "list", "acme")
    assert files == done["files"]
    assert {file["file"] for file in files} == {path.name for path in (tmp_path / "old" / "acme").iterdir()}
    listed = run("archive", "list", "acme").stdout
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict"],
        input=listed,
        text=True,
        cwd=tmp_path / "old" / "acme",
        check=False,
    )
    assert checked.returncode == 0
    assert "decisions" in run("archive", "run", "acme", "--older-than", "0", "--output", "old").stdout
    again = ask("decide", "acme", "-s", "0", "--id", "d")
    assert {**again, "status": "open"} == first
    assert ask("reward", "acme", "d", "0.5") == rewarded
    late = run("reward", "acme", "d", "0.5", "--id", "late", "--json")
    assert late.returncode == 1
    assert json.loads(late.stderr)["error"] == "ArchivedError"
    assert ask("verify")["count"] == 0
    line = ask("tenant", "audit", "acme")[0]
    assert line["verb"] == "archive"
    assert [item["verb"] for item in ask("tenant", "audit", "acme", "--by", line["actor"])] == [
        "archive",
        "create",
    ]
    assert ask("tenant", "export-audit", "acme", "audit.jsonl")["rows"] == {"audit": 3}
