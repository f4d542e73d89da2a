"""The demo, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steersman import Steersman
from tests.support.commands import BIN, run


def test_the_demo_writes_what_it_says_and_verifies(tmp_path: Path) -> None:
    sizes = ("--negotiations", "20", "--fresh", "5", "--processes", "1")
    done = run(BIN / "steersman", "demo", *sizes, "--output", "shown", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("alder", "birch", "cedar", "dahlia from the base", "dahlia empty", "verified"):
        assert words in done.stdout
    assert (tmp_path / "shown" / "curves.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    numbers = json.loads((tmp_path / "shown" / "numbers.json").read_text(encoding="utf-8"))
    assert numbers["verified"]["differences"] == 0
    company = numbers["companies"][0]
    assert company["last_fifth"] == pytest.approx(sum(company["outcomes"][-4:]) / 4)
    assert company["gain"] == company["learned"] - company["cards"][company["best_card"]]
    with Steersman.open(str(tmp_path / "shown" / "steersman.db")) as library:
        assert [owner.tenant for owner in library.list_tenants()] == [
            "alder",
            "birch",
            "cedar",
            "dahlia-cold",
            "dahlia-warm",
        ]
    # The same database again: its companies are there already, and nothing of theirs is touched.
    again = run(BIN / "steersman", "demo", *sizes, "--output", "shown", cwd=tmp_path)
    assert again.returncode == 1
    assert "NameTakenError" in again.stderr


def test_domains_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "domains").mkdir()
    done = run(BIN / "steersman", "demo", "--domains", "domains", "--output", "shown", cwd=tmp_path)
    assert done.returncode == 2
    assert "at least one domain" in done.stderr
