"""The documentation says what the code says: generated pages are current, and everything has its heading."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from steersman import errors
from steersman.domain.settings import TenantSpec
from steersman.settings import Settings
from tests.house.rules import ROOT, SOURCE
from tests.support.commands import BIN, run

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "changelog.d" / "README.md"])
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def headings(page: Path) -> set[str]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return {line.lstrip("#").strip().strip("`") for line in lines if line.startswith("#")}


def keys(body: dict[str, Any]) -> Iterator[str]:
    """The names that a declaration can have: sections with fixed parts count by their parts."""
    for name, value in body.items():
        if name in {"learning", "exploration"}:
            yield from (f"{name}.{part}" for part in value)
        else:
            yield name


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command and group of commands below `group`, by the words that call it."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")


def test_the_generated_pages_are_current(generate: ModuleType) -> None:
    assert generate.stale(DOCS) == []


def test_every_error_has_a_heading() -> None:
    assert set(errors.__all__) <= headings(DOCS / "errors.md")


def test_every_setting_has_a_heading() -> None:
    assert set(Settings.__dataclass_fields__) <= headings(DOCS / "settings.md")


def test_every_extra_is_told_of() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = re.findall(r"^\| `(\w+)` \|", (DOCS / "installing.md").read_text(), re.MULTILINE)
    assert sorted(table) == sorted(extras)


def test_everything_that_a_tenant_declares_has_a_heading() -> None:
    declared = TenantSpec.from_json({"actions": ["a"], "states": 1}).to_json()
    assert set(keys(declared)) == headings(DOCS / "tenants.md") - {"Tenants"}


def test_every_command_has_a_heading_and_a_sentence() -> None:
    typer = pytest.importorskip("typer.main")
    cli = pytest.importorskip("steersman.cli.app")
    found = dict(commands(typer.get_command(cli.app), "steersman"))
    assert found
    assert set(found) <= headings(DOCS / "cli.md")
    assert [name for name, command in found.items() if not command.help] == []


def test_every_verb_of_the_library_has_a_heading_and_its_signature() -> None:
    library = pytest.importorskip("steersman.library").Steersman
    verbs = {name for name in vars(library) if callable(getattr(library, name)) and not name.startswith("_")}
    assert verbs == headings(DOCS / "library.md") - {"The library"}
    page = (DOCS / "library.md").read_text(encoding="utf-8")
    assert "\n## void\n\n```python\nvoid(tenant: str, decision_id: str) -> Decision\n```\n\nTake " in page
    assert "\n    limit: int = 100,\n) -> list[Decision]\n```\n" in page


def test_every_page_is_in_the_index() -> None:
    linked = set(LINK.findall((DOCS / "README.md").read_text(encoding="utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - linked - {"README.md"} == set()


def test_the_tree_drawn_is_the_tree_defined() -> None:
    drawn = (inspect.getdoc(errors) or "").split("\n\n")[1].splitlines()
    path: list[str] = []
    parents = {}
    for line in drawn:
        depth, name = re.match(r"[│├└─ ]*", line).end() // 4, re.search(r"\w+", line)[0]  # type: ignore[union-attr,index]
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else "Exception"
    assert parents == {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_dependency_has_its_line() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [configuration["project"]["dependencies"]]
    groups += configuration["project"]["optional-dependencies"].values()
    groups += configuration["dependency-groups"].values()
    needed = {re.split(r"[\[<>=]", name)[0] for group in groups for name in group if isinstance(name, str)}
    rows = re.findall(r"^\|(.+)\|$", (DOCS / "adr" / "dependencies.md").read_text(), re.MULTILINE)
    explained = {word.strip(" `") for row in rows for cell in row.split("|") for word in cell.split(",")}
    assert needed - explained == set()
    assert set(configuration["project"]["optional-dependencies"]) - explained == set()


# Planted violations


def test_a_page_that_differs_or_is_missing_is_found(generate: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    shutil.copytree(DOCS, folder)
    assert generate.stale(folder) == []
    page = folder / "errors.md"
    page.write_text(page.read_text().replace("## FitError\n", ""))
    (folder / "settings.md").unlink()
    assert generate.stale(folder) == ["errors.md", "settings.md"]


def test_a_new_error_makes_its_page_stale(tmp_path: Path) -> None:
    package = tmp_path / "src" / "steersman"
    package.mkdir(parents=True)
    for name in ("__init__.py", "errors.py", "settings.py"):
        shutil.copy(SOURCE / name, package)
    (package / "__init__.py").write_text("")
    with (package / "errors.py").open("a") as file:
        file.write('class PlantedError(FitError):\n    """Planted."""\n')
    done = run(sys.executable, DOCS / "generate.py", "--check", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "docs/errors.md is out of date; run `make docs`\n"


@pytest.mark.parametrize(("name", "code"), [("+words.feature.md", 0), ("+words.novelty.md", 1)])
def test_a_change_note_of_no_known_kind_fails(tmp_path: Path, name: str, code: int) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    (tmp_path / "changelog.d" / name).write_text("Something new.\n")
    assert run(BIN / "towncrier", "build", "--draft", "--version", "next", cwd=tmp_path).returncode == code
