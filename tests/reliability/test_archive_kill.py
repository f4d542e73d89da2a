"""Archiving that is killed at any moment loses nothing and moves nothing twice."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from steersman.domain.records import DecideRequest, RewardRequest
from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.usecases.verify import verify
from tests.reliability.judge import tell
from tests.support.company import Company

pytestmark = pytest.mark.reliability

SEED = 20_261_130
KILLS = 6
DECISIONS = 400
ARCHIVE = """
import sys
from steersman.library import Steersman
from steersman.usecases import archive
archive._BATCH = 10
archive._STEP_BATCH = 10
with Steersman.open(sys.argv[1]) as library:
    library.archive(sys.argv[2], older_than=0, output=sys.argv[3])
"""


def test_an_archive_that_is_killed_can_be_gone_on_with(store_url: str, tmp_path: Path) -> None:
    generator = random.Random(SEED)
    Database.open(store_url, upgrade=True).close()
    with Steersman.open(store_url) as library:
        company = Company.found(library)
        requests = [DecideRequest(company.name, n % 2, decision_id=f"d{n:03d}") for n in range(DECISIONS)]
        first = library.decide_many(requests)
        rewards = [RewardRequest(company.name, f"d{n:03d}", 0.5) for n in range(DECISIONS)]
        rewarded = library.reward_many(rewards)
        cells = company.rows("cells")
        killed = 0
        for _ in range(KILLS):
            killed += archive_and_kill(store_url, company.name, tmp_path, files=generator.randrange(1, 30))
            assert verify(library.database).differences == ()
            check_files(company, tmp_path)
            assert library.reward_many(rewards) == rewarded
        moved = len(company.rows("archived_decisions"))
        tell(SEED, f"{killed} of {KILLS} runs killed, {moved} of {DECISIONS} decisions moved")
        assert killed > KILLS // 2
        library.archive(company.name, older_than=0, output=tmp_path)
        assert (company.rows("decisions"), company.rows("learning_steps")) == ([], [])
        check_files(company, tmp_path)
        assert company.rows("cells") == cells
        assert verify(library.database).differences == ()
        again = library.decide_many(requests)
        assert [(item.action, item.seen) for item in again] == [(item.action, item.seen) for item in first]  # type: ignore[union-attr]


def archive_and_kill(url: str, tenant: str, output: Path, *, files: int) -> bool:
    """Archive in a process that is killed once it has written so many files; return whether it was."""
    folder = output / tenant
    before = len(list(folder.glob("*.parquet")))
    process = subprocess.Popen([sys.executable, "-c", ARCHIVE, url, tenant, str(output)])
    while process.poll() is None and len(list(folder.glob("*.parquet"))) < before + files:
        time.sleep(0.002)
    process.kill()
    return process.wait() != 0


def check_files(company: Company, output: Path) -> None:
    """Every decision is in a table or in one listed file, and never in both."""
    held: Counter[str] = Counter(row[1] for row in company.rows("decisions"))
    for file in company.library.list_archive(company.name):
        path = output / company.name / file.file
        assert hashlib.sha256(path.read_bytes()).digest() == file.digest
        if file.holds == "decisions":
            held.update(pq.read_table(path).column("decision_id").to_pylist())
    assert held == Counter(f"d{n:03d}" for n in range(DECISIONS))
