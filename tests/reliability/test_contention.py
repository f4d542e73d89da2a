"""Eight processes, one hot cell and sixteen other states: every visit and every reward is counted once."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import fsum, isclose

from steersman.library import Steersman
from steersman.store.engine import Database
from tests.reliability.children import hear, say, spawn
from tests.reliability.crowd import CROWD, HOT, OTHERS, PAIRS, SHARED, TENANT, Note, contend
from tests.reliability.judge import judge, tell

SEED = 8


def run_crowd(url: str) -> tuple[list[Note], float]:
    """Let them all begin at once; return what all of them noted, and the seconds that the longest pair took."""
    pipes = spawn(contend, [(url, f"client{i}", SEED) for i in range(CROWD)])
    say(pipes, b"go")
    told = hear(pipes)
    return [Note(*note) for notes, _ in told for note in notes], max(longest for _, longest in told)


def test_a_crowd_is_counted_exactly(store_url: str) -> None:
    with Steersman(Database.open(store_url, upgrade=True)) as library:
        library.create_tenant(
            TENANT, {"actions": ["hold", "concede", "mirror", "trade"], "states": OTHERS + 1}
        )
    notes, longest = run_crowd(store_url)
    books = judge(store_url)
    tell(SEED, f"{len(notes)} pairs by {CROWD} processes, the longest {longest:.2f} s,", books.counts())

    # The ids that all of them asked for were decided once, and everybody was told the same.
    assert len(notes) == CROWD * (PAIRS + SHARED)
    decided = {note.decision_id: note for note in notes}
    assert set(notes) == set(decided.values())
    assert len(decided) == CROWD * PAIRS + SHARED
    assert len(books.policy_versions) == 1
    assert len(books.decisions) == len(books.rewards) == len(books.learning_steps) == len(decided)

    # With 1/n steps and no episodes, q is the mean of what the clients say that they sent.
    values = defaultdict(list)
    for note in decided.values():
        values[note.state, note.action].append(note.value)
    assert len(values[HOT]) == CROWD * PAIRS // 2 + SHARED
    cells = {(row["state"], row["action"]): row for row in books.cells}
    counts = Counter({key: len(sent) for key, sent in values.items()})
    assert {key: row["visits"] for key, row in cells.items()} == counts
    assert {key: row["updates"] for key, row in cells.items()} == counts
    assert all(
        isclose(cells[key]["q"], fsum(sent) / len(sent), rel_tol=1e-12) for key, sent in values.items()
    )
