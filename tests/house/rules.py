"""What we hold ourselves to and no common linter checks: each rule lists its violations in a tree of modules.

A file whose name is no identifier, such as a numbered migration, is a generated record: it is run and never
imported, and once released never edited, so the rules about length and names do not apply to it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "LONGEST_FUNCTION",
    "LONGEST_MODULE",
    "ROOT",
    "SOURCE",
    "exports_wrong",
    "extras_undeclared",
    "functions_too_long",
    "imports_undeclared",
    "listed_layers",
    "modules_too_long",
    "packages_unlisted",
    "places_importing",
    "undocumented",
]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "steersman"
LONGEST_FUNCTION = 70  # lines from `def` to the last statement; a decorator's table of cases is data
LONGEST_MODULE = 500  # lines
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_EXPLANATION = re.compile(r"^Long because ", re.MULTILINE)
_IMPORTERS = {"import_module", "__import__", "find_spec"}


def functions_too_long(tree: Path) -> list[str]:
    """Every function of more than 70 lines."""
    found = []
    for path, module in _modules(tree):
        for node in ast.walk(module):
            if isinstance(node, _FUNCTIONS):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    found.append(f"{path}:{node.lineno}: {node.name} has {lines} lines")
    return found


def modules_too_long(tree: Path) -> list[str]:
    """Every module of more than 500 lines without a paragraph "Long because ..." in its docstring."""
    found = []
    for path, module in _modules(tree):
        lines = len((tree / path).read_text(encoding="utf-8").splitlines())
        if lines > LONGEST_MODULE and not _EXPLANATION.search(ast.get_docstring(module) or ""):
            found.append(f"{path}: {lines} lines and no 'Long because ...' in its docstring")
    return found


def exports_wrong(tree: Path) -> list[str]:
    """Every module whose `__all__` differs from the public names that it defines.

    A package may list what it imports too.
    """
    found = []
    for path, module in _modules(tree):
        defined = set(_defined_names(module.body))
        public = {name for name in defined if not name.startswith("_")}
        listed = _listed_exports(module)
        allowed = public | set(_imported_names(module)) if path.name == "__init__.py" else public
        missing, unknown = sorted(public - listed), sorted(listed - allowed)
        if missing or unknown:
            found.append(f"{path}: __all__ lacks {missing}, lists without defining {unknown}")
    return found


def undocumented(tree: Path) -> list[str]:
    """Every module, public function, class and method without a docstring."""
    found = []
    for path, module in _modules(tree):
        if not ast.get_docstring(module):
            found.append(f"{path}: no docstring")
        for name, node in _public_definitions(module.body):
            if not ast.get_docstring(node):
                found.append(f"{path}:{node.lineno}: {name} has no docstring")
    return found


def listed_layers(pyproject: Path) -> set[str]:
    """The packages and modules that the layers contract of `pyproject` names."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {name.strip().strip("()") for layer in layers for name in re.split(r"[|:]", layer)}


def packages_unlisted(tree: Path, pyproject: Path) -> list[str]:
    """Every package or module directly in `tree` that has no layer."""
    listed = listed_layers(pyproject)
    children = {path.relative_to(tree).parts[0].removesuffix(".py") for path, _ in _files(tree)}
    return sorted(children - listed - {"__init__"})


def places_importing(tree: Path, package: str) -> list[str]:
    """Every import of `package`, by statement or by name, wherever in a module it stands."""
    found = []
    for path, module in _modules(tree):
        for node in ast.walk(module):
            names = _imports_of(node)
            if any(name == package or name.startswith(f"{package}.") for name in names):
                found.append(f"{path}:{getattr(node, 'lineno', 0)}")
    return found


def extras_undeclared(tree: Path, pyproject: Path) -> list[str]:
    """Every MissingExtraError that names an extra which `pyproject` does not have."""
    declared = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found = []
    for path, module in _modules(tree):
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and _called(node) == "MissingExtraError":
                named = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
                found += [f"{path}:{node.lineno}: {name}" for name in named if name not in declared]
    return found


def imports_undeclared(tree: Path, pyproject: Path) -> list[str]:
    """Every import of a package that neither the dependencies nor the extras of `pyproject` bring."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {_normalised(re.split(r"[\[<>=]", name)[0]) for names in lists for name in names}
    owners = packages_distributions()
    found = []
    for path, module in _modules(tree):
        for node in ast.walk(module):
            named = (
                {name.split(".")[0] for name in _imports_of(node)} - sys.stdlib_module_names - {"steersman"}
            )
            strange = [n for n in named if declared.isdisjoint(map(_normalised, owners.get(n, [n])))]
            found += [f"{path}:{getattr(node, 'lineno', 0)}: {name}" for name in strange]
    return found


def _normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _files(tree: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(tree.rglob("*.py")):
        yield path, path.relative_to(tree)


def _modules(tree: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path, relative in _files(tree):
        if path.stem.isidentifier():
            yield relative, ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _defined_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, _DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (
                name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        else:
            for part in ast.iter_child_nodes(node):
                inner = part.body if isinstance(part, ast.ExceptHandler) else [part]
                yield from _defined_names(child for child in inner if isinstance(child, ast.stmt))


def _imported_names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)


def _listed_exports(module: ast.Module) -> set[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return set(ast.literal_eval(node.value))
    return set()


def _public_definitions(body: Iterable[ast.stmt], within: str = "") -> Iterator[tuple[str, Definition]]:
    for node in body:
        if isinstance(node, _DEFINITIONS) and not node.name.startswith("_") and not _is_overload(node):
            yield f"{within}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from _public_definitions(node.body, f"{node.name}.")


def _is_overload(node: Definition) -> bool:
    return any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in node.decorator_list)


def _imports_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.Call) and _called(node) in _IMPORTERS:
        return [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
    return []


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rsplit(".", 1)[-1]
