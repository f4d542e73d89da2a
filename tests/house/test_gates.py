"""The gates of `make check` close: each fails on a planted violation and passes without it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.rules import ROOT, listed_layers
from tests.support.commands import BIN, run

PYPROJECT = ROOT / "pyproject.toml"
# Modules that contracts and plants name, beside the layers themselves.
SERVING = [f"usecases/{verb}.py" for verb in ("decide", "reward", "close_episode", "void", "expire")]
NAMED = [
    "integrations/negmas/__init__.py",
    "store/hot/__init__.py",
    "training/fit.py",
    "usecases/fit.py",
    *SERVING,
]


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """A package with every layer, every module that a contract names, and no line of code."""
    shutil.copy(PYPROJECT, tmp_path)
    source = tmp_path / "src" / "steersman"
    for name in ["__init__.py", *(f"{layer}/__init__.py" for layer in listed_layers(PYPROJECT)), *NAMED]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    return source


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    return run(BIN / "lint-imports", "--no-cache", cwd=source.parents[1])


def test_a_bare_skeleton_passes(skeleton: Path) -> None:
    done = lint_imports(skeleton)
    assert done.returncode == 0, done.stdout


def test_what_the_layers_allow_passes(skeleton: Path) -> None:
    (skeleton / "usecases" / "decide.py").write_text("from steersman.store import hot\n")
    (skeleton / "store" / "engine.py").write_text("import sqlalchemy, alembic, psycopg, pysqlite3, sqlite3\n")
    (skeleton / "training" / "mlp.py").write_text("import torch\n")
    (skeleton / "integrations" / "negmas" / "cards.py").write_text(
        "import negmas\nimport steersman.library\n"
    )
    (skeleton / "__init__.py").write_text("from steersman import library\n")
    done = lint_imports(skeleton)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        (
            "domain/wrong.py",
            "import steersman.usecases",
            "steersman.domain is not allowed to import steersman.usecases",
        ),
        (
            "store/wrong.py",
            "import steersman.teacher",
            "steersman.store is not allowed to import steersman.teacher",
        ),
        (
            "library/wrong.py",
            "import steersman.console",
            "steersman.library is not allowed to import steersman.console",
        ),
        (
            "service/wrong.py",
            "import steersman.client",
            "steersman.service is not allowed to import steersman.client",
        ),
        (
            "errors/wrong.py",
            "import steersman.settings",
            "steersman.errors is not allowed to import steersman.settings",
        ),
        ("weather/__init__.py", "", "steersman.weather"),
        ("stray.py", "", "steersman.stray"),
        ("policies/wrong.py", "def later():\n    import torch", "steersman is not allowed to import torch"),
        ("usecases/wrong.py", "import sqlalchemy.orm", "steersman is not allowed to import sqlalchemy"),
        ("cli/wrong.py", "from alembic import command", "steersman is not allowed to import alembic"),
        ("service/wrong.py", "import psycopg", "steersman is not allowed to import psycopg"),
        ("console/wrong.py", "import pysqlite3", "steersman is not allowed to import pysqlite3"),
        ("teacher/wrong.py", "import sqlite3", "steersman is not allowed to import sqlite3"),
        ("usecases/wrong.py", "import negmas", "steersman is not allowed to import negmas"),
    ],
)
def test_a_planted_import_breaks_its_contract(skeleton: Path, module: str, text: str, complaint: str) -> None:
    (skeleton / module).parent.mkdir(exist_ok=True)
    (skeleton / module).write_text(text + "\n")
    done = lint_imports(skeleton)
    assert done.returncode == 1
    assert complaint in done.stdout


def test_what_serves_may_not_reach_training_by_a_way_round(skeleton: Path) -> None:
    (skeleton / "training" / "fit.py").write_text("import torch\n")
    (skeleton / "usecases" / "fit.py").write_text("import steersman.training.fit\n")
    assert lint_imports(skeleton).returncode == 0
    (skeleton / "usecases" / "decide.py").write_text("import steersman.usecases.fit\n")
    done = lint_imports(skeleton)
    assert done.returncode == 1
    assert "steersman.usecases.decide is not allowed to import steersman.training" in done.stdout


def test_the_root_is_no_way_around_the_layers(skeleton: Path) -> None:
    (skeleton / "__init__.py").write_text("from steersman.library import facade\n")
    (skeleton / "library" / "facade.py").touch()
    (skeleton / "domain" / "wrong.py").write_text("import steersman\n")
    done = lint_imports(skeleton)
    assert done.returncode == 1
    assert "steersman.domain.wrong -> steersman" in done.stdout


CLEAN = '''"""What a module looks like."""

from __future__ import annotations

__all__ = ["double"]


def double(value: float) -> float:
    """Return twice the value."""
    return 2.0 * value
'''


def ruff(text: str) -> subprocess.CompletedProcess[str]:
    name = "src/steersman/domain/planted.py"
    return run(BIN / "ruff", "check", "--no-cache", "--stdin-filename", name, "-", cwd=ROOT, stdin=text)


def test_clean_code_passes_ruff() -> None:
    assert ruff(CLEAN).returncode == 0


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ('"""What a module looks like."""', "", "D100"),
        ('    """Return twice the value."""\n', "", "D103"),
        ("the value.", "the value", "D415"),
        ("value: float", "value", "ANN001"),
        ("from __future__ import annotations", "from __future__ import annotations\n\nimport os", "F401"),
        ("from __future__ import annotations", "from . import catalogue", "TID252"),
        ("return 2.0 * value", "assert value\n    return 2.0 * value", "S101"),
        ("return 2.0 * value", "print(value)\n    return 2.0 * value", "T201"),
        ("return 2.0 * value", "return 2.0 * value  # type: ignore", "PGH003"),
        ("return 2.0 * value", "return 2.0 * value  # " + "x" * 110, "E501"),
        ('__all__ = ["double"]', '__all__ = ["single", "double"]', "RUF022"),
        ("value: float", "value: list[float] = []", "B006"),
    ],
)
def test_planted_code_fails_ruff(right: str, wrong: str, code: str) -> None:
    assert right in CLEAN
    done = ruff(CLEAN.replace(right, wrong, 1))
    assert done.returncode == 1
    assert code in done.stdout


def test_unformatted_code_fails_the_format_check() -> None:
    command: list[str | Path] = [
        BIN / "ruff",
        "format",
        "--check",
        "--no-cache",
        "--stdin-filename",
        "src/planted.py",
        "-",
    ]
    assert run(*command, cwd=ROOT, stdin=CLEAN).returncode == 0
    assert run(*command, cwd=ROOT, stdin=CLEAN.replace('"double"', "'double'")).returncode == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def double(value):\n    return 2 * value\n", "no-untyped-def"),
        ("def double(values: list) -> int:\n    return len(values)\n", "type-arg"),
        ("from typing import Any\ndef double(value: Any) -> int:\n    return value\n", "no-any-return"),
        ("def double(value: int | None) -> int:\n    return 2 * value\n", "operator"),
        ("x: int = 1  # type: ignore\n", "unused-ignore"),
    ],
)
def test_planted_code_fails_the_strict_types(tmp_path: Path, text: str, code: str) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(text)
    command: list[str | Path] = [
        BIN / "mypy",
        "--config-file",
        PYPROJECT,
        "--cache-dir",
        ROOT / ".mypy_cache" / "planted",
    ]
    done = run(*command, planted, cwd=tmp_path)
    assert done.returncode == 1
    assert f"[{code}]" in done.stdout
    planted.write_text(CLEAN)
    done = run(*command, planted, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
