"""A program that only calls a service loads no database, no framework and no PyTorch."""

from __future__ import annotations

import pytest

from steersman.errors import MissingExtraError
from tests.house.rules import ROOT
from tests.support.commands import BIN, run

HEAVY = [
    "alembic",
    "fastapi",
    "psycopg",
    "pysqlite3",
    "sqlalchemy",
    "sqlite3",
    "starlette",
    "torch",
    "typer",
    "uvicorn",
]
LOADED = "import sys; {statement}; print(*sorted(set({heavy}) & set(sys.modules)))"


def loaded(statement: str) -> str:
    done = run(BIN / "python", "-c", LOADED.format(statement=statement, heavy=HEAVY), cwd=ROOT)
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_client_is_light() -> None:
    assert loaded("import steersman.client; steersman.client.Client('http://host', 'key').close()") == ""


@pytest.mark.parametrize("heavy", ["sqlalchemy", "fastapi"])
def test_what_is_heavy_would_be_found(heavy: str) -> None:
    assert heavy in loaded(f"import steersman.client, {heavy}").split()


def test_without_its_extra_the_error_names_the_command_that_installs_it() -> None:
    program = (
        "import sys; sys.modules['httpx'] = None\n"
        "from steersman.errors import MissingExtraError\n"
        "try:\n    import steersman.client\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = run(BIN / "python", "-c", program, cwd=ROOT)
    assert done.stderr == ""
    assert done.stdout.strip() == str(MissingExtraError("client", purpose="calling a service"))
