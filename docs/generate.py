"""Writes the reference pages from the code, or with --check says which of them are out of date."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from steersman import errors
from steersman.errors import SteersmanError
from steersman.settings import Settings

__all__ = ["api_page", "commands_page", "errors_page", "main", "pages", "settings_page", "stale"]

DOCS = Path(__file__).parent
NOTE = "<!-- Made by `make docs` from the code; changes belong there. -->\n"
# The formatter may put a long default on lines of its own, before the next field begins.
COMMENTED_FIELD = re.compile(r"^    (\w+):(?:[^#\n]|\n(?!    \w+:))*#\s*(.+)$", re.MULTILINE)


def errors_page() -> str:
    """Return the page of errors: the tree, and a heading for each class in the tree's order."""
    tree = (inspect.getdoc(errors) or "").split("\n\n")[1]
    parts = [
        "# Errors\n",
        NOTE,
        "Everything that Steersman raises is a `SteersmanError`. Catch the narrowest class that you can act",
        "on; a class catches all those below it. A message says what was expected, what came and where; the",
        "fields `where` and `hint` of an error hold its place and the next thing to do.\n",
        f"```text\n{tree}\n```\n",
    ]
    for kind in _in_tree_order(SteersmanError):
        parent = kind.__bases__[0].__name__
        parts += [
            f"## {kind.__name__}\n",
            f"{inspect.getdoc(kind)}\n",
            f"A kind of `{parent}`.{_over_http(kind)}\n",
        ]
    return "\n".join(parts)


def _over_http(kind: type[SteersmanError]) -> str:
    if not importlib.util.find_spec("steersman.service"):
        return ""
    from steersman.service.problems import STATUS

    return f" Over HTTP: status {STATUS[kind]}, code `{kind.code()}`."


def settings_page() -> str:
    """Return the page of the program's settings: a heading for each field, in the order of the class."""
    comments = dict(COMMENTED_FIELD.findall(inspect.getsource(Settings)))
    parts = [
        "# Settings\n",
        NOTE,
        "The program reads these once, when it starts: from the TOML file that `STEERSMAN_CONFIG` names, if",
        "there is one, and from the environment, which wins. What a tenant declares is told in",
        "[tenants](tenants.md).\n",
    ]
    for field in fields(Settings):
        parts += [
            f"## {field.name}\n",
            _as_sentence(comments[field.name]),
            f"Environment: `STEERSMAN_{field.name.upper()}`. Default: `{field.default}`.\n",
        ]
    return "\n".join(parts)


def commands_page() -> str:
    """Return the page of commands, as Typer writes it."""
    command = [sys.executable, "-m", "typer", "steersman.cli.app", "utils", "docs", "--name", "steersman"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{NOTE}{rest}"


def api_page() -> str:
    """Return the page of the service's routes: a heading for each, in the order of its description."""
    from steersman.service.rest import build_rest

    document = build_rest().openapi()
    parts = [
        "# API\n",
        NOTE,
        "Every route of the service, by what it is for. The same, with the schema of every body, is at",
        "`/openapi.json` of a running service; how it behaves is told in [the service](service.md). A key needs the",
        "scope that stands with a route; `open` needs none. An operator's key has every scope, and names the tenant.",
        "Errors are [problem documents](service.md#errors).\n",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += [f"## {method.upper()} {path}\n", *_route_parts(operation)]
    return "\n".join(parts)


def _route_parts(operation: dict[str, Any]) -> list[str]:
    parts = [
        f"{operation.get('description') or operation['summary']}\n",
        f"Scope: `{operation['x-scope']}`.\n",
    ]
    named = {"query": "", "header": "the header "}
    beside = [
        f"- {named[item['in']]}`{item['name']}`: {_as_sentence(item['description']).strip()}"
        for item in operation.get("parameters", ())
        if item["in"] in named
    ]
    parts += [*beside, ""] if beside else []
    for body in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"```json\n{json.dumps(body['example'])}\n```\n")
    return parts


def pages() -> dict[str, str]:
    """Return the text of each generated page by its file name."""
    made = {"errors.md": errors_page(), "settings.md": settings_page()}
    if importlib.util.find_spec("steersman.cli"):
        made["cli.md"] = commands_page()
    if importlib.util.find_spec("steersman.service"):
        made["api.md"] = api_page()
    return made


def stale(folder: Path) -> list[str]:
    """Return the names of the pages in `folder` that are missing or differ from what the code says."""
    return [
        name
        for name, text in pages().items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write the pages, or check them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    if parser.parse_args().check:
        outdated = stale(DOCS)
        for name in outdated:
            print(f"docs/{name} is out of date; run `make docs`", file=sys.stderr)
        return 1 if outdated else 0
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
    return 0


def _as_sentence(comment: str) -> str:
    return f"{comment[0].upper()}{comment[1:]}{'' if comment.endswith('.') else '.'}\n"


def _in_tree_order(kind: type[SteersmanError]) -> list[type[SteersmanError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _in_tree_order(child))]


if __name__ == "__main__":
    sys.exit(main())
