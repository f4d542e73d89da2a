"""Tables of learning that were made elsewhere: taken strictly, from CSV and Parquet."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from steersman.errors import InvalidTableError, NotFoundError, TenantRetiredError
from steersman.library import Steersman
from steersman.store.cells import iterate_cells
from steersman.usecases.import_table import import_table
from steersman.usecases.tenants import audit_trail, retire
from steersman.usecases.verify import verify
from steersman.usecases.versions import list_versions
from tests.support.commands import run
from tests.support.company import Company

STATES = {"factors": [{"name": "stage", "values": ["open", "late"]}, {"name": "gap", "edges": [0.1, 0.3]}]}


@pytest.fixture
def staged(shared_library: Steersman) -> Company:
    """Actions hold and trade; two stages of three gaps."""
    return Company.found(shared_library, states=STATES)


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def columns(folder: Path, **data: list[Any]) -> Path:
    path = folder / "table.parquet"
    parquet.write_table(pa.table(data), path)
    return path


def cells_of(company: Company, version: int) -> dict[tuple[int, str], tuple[float, int, int, float]]:
    with company.library.database.snapshot() as connection:
        return {
            (cell.key.state, cell.key.action): (cell.q, cell.visits, cell.updates, cell.borrowed)
            for cell in iterate_cells(connection, company.name, version)
        }


def test_a_table_becomes_the_active_version(company: Company, tmp_path: Path) -> None:
    database = company.library.database
    company.teach("hold", 0.5)
    path = csv(
        tmp_path, "state,action,q,visits,updates,borrowed", "0,trade,0.25,4,3,1.5", "1,hold,-2e-1,0,0,7"
    )
    done = import_table(database, company.name, path)
    assert (done.version, done.cells, done.unknown_states, done.unknown_actions) == (2, 2, 0, 0)
    assert done.without_evidence == 0
    assert cells_of(company, 2) == {(0, "trade"): (0.25, 4, 3, 1.5), (1, "hold"): (-0.2, 0, 0, 7.0)}
    assert cells_of(company, 1) == {(0, "hold"): (0.5, 1, 1, 0.0)}
    version = list_versions(database, company.name)[-1]
    assert (version.origin, version.parent, version.status) == ("imported", 1, "active")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert version.provenance == {"file": "table.csv", "sha256": digest}
    line = audit_trail(database, company.name)[0]
    assert (line.verb, line.detail["version"], line.detail["sha256"]) == ("import", 2, digest)
    # 0.25 counts 1.5 borrowed and 3 updates: (0.25 * 4.5 + 1) / 5.5.
    company.teach("trade", 1.0)
    assert company.q("trade", version=2) == pytest.approx(2.125 / 5.5, abs=1e-15)
    assert verify(database, company.name).differences == ()


def test_a_tenant_can_begin_with_a_table(company: Company, tmp_path: Path) -> None:
    done = import_table(company.library.database, company.name, csv(tmp_path, "action,state,q", "hold,0,1"))
    assert (done.version, done.without_evidence) == (1, 1)
    (version,) = list_versions(company.library.database, company.name)
    assert (version.origin, version.parent) == ("imported", None)
    assert company.decide().version == 1


def test_states_go_by_factors_too(staged: Company, tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        "gap,stage,action,q,borrowed",
        "0.1,late,hold,1,1",  # an edge belongs to the bin above it
        "<0.1,open,hold,2,1",
        ">=0.3,open,trade,3,1",
        "1e9,late,trade,4,1",
    )
    import_table(staged.library.database, staged.name, path)
    assert {key: numbers[0] for key, numbers in cells_of(staged, 1).items()} == {
        (4, "hold"): 1.0,
        (0, "hold"): 2.0,
        (2, "trade"): 3.0,
        (5, "trade"): 4.0,
    }


def test_what_has_no_place_is_left_out_and_counted(staged: Company, tmp_path: Path) -> None:
    database = staged.library.database
    by_index = csv(tmp_path, "state,action,q", "5,hold,1", "6,hold,1", "-1,hold,1", "0,bluff,1", "9,bluff,1")
    done = import_table(database, staged.name, by_index)
    assert (done.cells, done.unknown_states, done.unknown_actions) == (1, 2, 2)
    by_factor = csv(tmp_path, "stage,gap,action,q", "over,0.2,hold,1", "late,0.2,hold,1")
    done = import_table(database, staged.name, by_factor)
    assert (done.cells, done.unknown_states, done.unknown_actions) == (1, 1, 0)


def test_a_table_without_ids_is_taken_when_its_size_agrees(company: Company, tmp_path: Path) -> None:
    database = company.library.database
    done = import_table(database, company.name, csv(tmp_path, "state,action_index,q", "0,1,0.5", "0,0,1"))
    assert cells_of(company, done.version) == {(0, "hold"): (1.0, 0, 0, 0.0), (0, "trade"): (0.5, 0, 0, 0.0)}
    for rows, size in ((["0,0,1"], 1), (["0,0,1", "0,1,1", "1,2,1"], 3)):
        expected = (
            rf"expected 2 actions, as many as the catalogue has.*got {size}, by the largest action_index"
        )
        with pytest.raises(InvalidTableError, match=expected):
            import_table(database, company.name, csv(tmp_path, "state,action_index,q", *rows))


def test_parquet_is_read_alike(staged: Company, tmp_path: Path) -> None:
    database = staged.library.database
    path = columns(
        tmp_path,
        state=[0, 5, 6],
        action=["hold", "trade", "hold"],
        q=[0.5, 1.0, 0.0],
        updates=[3, 0, 0],
        borrowed=[0.0, 2.5, 0.0],
    )
    done = import_table(database, staged.name, path)
    assert (done.cells, done.unknown_states) == (2, 1)
    assert cells_of(staged, 1) == {(0, "hold"): (0.5, 0, 3, 0.0), (5, "trade"): (1.0, 0, 0, 2.5)}
    done = import_table(
        database, staged.name, columns(tmp_path, stage=["late"], gap=[0.2], action_index=[1], q=[1])
    )
    assert cells_of(staged, done.version) == {(4, "trade"): (1.0, 0, 0, 0.0)}


def test_action_ids_may_be_numbers(shared_library: Steersman, tmp_path: Path) -> None:
    company = Company.found(shared_library, actions=[7, 12])
    import_table(shared_library.database, company.name, csv(tmp_path, "state,action,q", "0,12,1"))
    import_table(shared_library.database, company.name, columns(tmp_path, state=[0], action=[12], q=[1.0]))
    assert cells_of(company, 1) == cells_of(company, 2) == {(0, "12"): (1.0, 0, 0, 0.0)}


def test_what_a_table_does_not_tell_is_as_it_opens(shared_library: Steersman, tmp_path: Path) -> None:
    company = Company.found(shared_library, priors={"trade": {"q": 0.5, "weight": 2}})
    company.teach("trade", 1.0)
    import_table(
        shared_library.database, company.name, csv(tmp_path, "state,action,q,borrowed", "0,hold,1,1")
    )
    seen = company.decide().seen
    assert (seen.q, seen.borrowed) == ((1.0, 0.5), (1.0, 2.0))


@pytest.mark.parametrize(
    ("lines", "where", "message"),
    [
        ([], "", r"expected the columns state \(or stage, gap\), action"),
        (["state,action"], "", "expected the columns"),
        (["state,action,q,quality", "0,hold,1,1"], "", "expected the columns"),
        (["state,action,q,q", "0,hold,1,1"], "", "each once"),
        (["state,action,action_index,q", "0,hold,0,1"], "", "expected the columns"),
        (["stage,action,q", "open,hold,1"], "", "expected the columns"),
        (["state,action,q"], "", "at least one row"),
        (["state,action,q", "9,hold,1", "0,bluff,1"], "", "got 1 of other states and 1 of other actions"),
        (["state,action,q", "0,hold,1", "0,trade"], ":3", "expected 3 values, got 2"),
        (["state,action,q", "0,hold,nan"], ":2", "q: expected a finite number, got 'nan'"),
        (["state,action,q", "0,hold,1e999"], ":2", "q: expected a finite number"),
        (["state,action,q", "0,hold,1_0"], ":2", "q: expected a finite number, got '1_0'"),
        (["state,action,q", "0,hold, 1"], ":2", "q: expected a finite number, got ' 1'"),
        (["state,action,q", "0,hold,"], ":2", "q: expected a finite number, got ''"),
        (["state,action,q", "0.0,hold,1"], ":2", "state: expected an integer, got '0.0'"),
        (["state,action,q", "x,bluff,1"], ":2", "state: expected an integer"),
        (["state,action,q", "0,,1"], ":2", "action: expected an action id, got ''"),
        (["state,action_index,q", "0,-1,1"], ":2", "action_index: expected an integer from 0"),
        (["state,action,q,visits", "0,hold,1,2", "1,hold,1,-1"], ":3", "visits: expected an integer from 0"),
        (["state,action,q,updates", "0,hold,1,2.5"], ":2", "updates: expected an integer, got '2.5'"),
        (["state,action,q,borrowed", "0,hold,1,-0.5"], ":2", "borrowed: expected 0, or 1e-06 to"),
        (["state,action,q,borrowed", "0,hold,1,inf"], ":2", "borrowed: expected a finite number"),
        (["stage,gap,action,q", "open,,hold,1"], ":2", "gap: expected a value, got nothing"),
        (["stage,gap,action,q", "open,far,hold,1"], ":2", "gap: expected a finite number, got 'far'"),
        (["state,action,q", "0,hold,1", "1,hold,1", "0,hold,2"], ":4", "each cell once, got that of line 2"),
        (["state,action,q", '0,"hold,1'], "", "expected a readable CSV file"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_a_bad_table_is_refused_and_changes_nothing(
    staged: Company, tmp_path: Path, lines: list[str], where: str, message: str
) -> None:
    path = csv(tmp_path, *lines)
    with pytest.raises(InvalidTableError, match=message) as raised:
        import_table(staged.library.database, staged.name, path)
    assert raised.value.where == f"{path}{where}"
    assert list_versions(staged.library.database, staged.name) == []


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (
            {"state": [0, None], "action": ["hold", "hold"], "q": [1.0, 1.0]},
            ":2",
            "state: expected an integer",
        ),
        ({"state": [0.0], "action": ["hold"], "q": [1.0]}, ":1", "state: expected an integer, got 0.0"),
        ({"state": [True], "action": ["hold"], "q": [1.0]}, ":1", "state: expected an integer, got True"),
        ({"state": [0], "action": [None], "q": [1.0]}, ":1", "action: expected an action id"),
        ({"state": [0], "action": [1.5], "q": [1.0]}, ":1", "action: expected an action id"),
        ({"state": [0], "action": ["hold"], "q": [float("nan")]}, ":1", "q: expected a finite number"),
        ({"state": [0], "action": ["hold"], "q": [True]}, ":1", "q: expected a finite number"),
        ({"stage": ["late"], "gap": [None], "action": ["hold"], "q": [1]}, ":1", "gap: expected a value"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_bad_parquet_is_refused_alike(
    staged: Company, tmp_path: Path, data: dict[str, list[Any]], where: str, message: str
) -> None:
    path = columns(tmp_path, **data)
    with pytest.raises(InvalidTableError, match=message) as raised:
        import_table(staged.library.database, staged.name, path)
    assert raised.value.where == f"{path}{where}"


@pytest.mark.parametrize(
    "name", ["table.csv", "table.parquet", "table.txt", "missing.csv", "missing.parquet"]
)
def test_a_file_that_is_no_table_is_refused(company: Company, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if not name.startswith("missing"):
        path.write_bytes(b"\xff\xfe\x00PAR1")
    with pytest.raises(InvalidTableError, match="expected a"):
        import_table(company.library.database, company.name, path)


def test_a_retired_or_unknown_tenant_imports_nothing(company: Company, tmp_path: Path) -> None:
    path = csv(tmp_path, "state,action,q", "0,hold,1")
    retire(company.library.database, company.name)
    with pytest.raises(TenantRetiredError):
        import_table(company.library.database, company.name, path)
    with pytest.raises(NotFoundError):
        import_table(company.library.database, "nobody", path)


def test_without_the_extra_it_tells_how_to_install_it(tmp_path: Path) -> None:
    path = columns(tmp_path, state=[0], action=["hold"], q=[1.0])
    program = f"""
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from steersman.domain.settings import TenantSpec
from steersman.errors import MissingExtraError
from steersman.usecases.table_file import read_table
try:
    read_table(Path({str(path)!r}), TenantSpec.from_json({{"actions": ["hold"], "states": 1}}))
except MissingExtraError as error:
    print(error)
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    assert done.stdout == (
        "reading a Parquet table needs the extra 'parquet', which is not installed "
        "(install it with: pip install 'steersman[parquet]')\n"
    ), done.stderr
