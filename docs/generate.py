"""Writes the reference pages from the code, or with --check says which of them are out of date."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from steersman import errors
from steersman.errors import SteersmanError
from steersman.settings import Settings

__all__ = [
    "api_page",
    "commands_page",
    "errors_page",
    "library_page",
    "main",
    "pages",
    "settings_page",
    "stale",
]

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
        "there is one, and from the environment, which wins. What the file does not know is refused, and so is a",
        "variable whose name is nearly one of these. What a tenant declares is told in [tenants](tenants.md).\n",
        "```toml",
        'database_url = "postgresql://steersman_service@db.example/steersman"',
        'operator_url = "postgresql://steersman_operator@db.example/steersman"',
        "key_in_flight = 200",
        "```\n",
    ]
    for field in fields(Settings):
        default = "none" if field.default == "" else f"`{field.default}`"
        parts += [
            f"## {field.name}\n",
            _as_sentence(comments[field.name]),
            f"Environment: `STEERSMAN_{field.name.upper()}`. Default: {default}.\n",
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
        "Every route of the service, by what it is for, then the [fields](#schemas) of all bodies and answers. The",
        "same is at `/openapi.json` of a running service; how it behaves is told in [the service](service.md). A key",
        "needs the scope that stands with a route; `open` needs none. An operator's key has every scope, and names",
        "the tenant. Besides the status that is named, every route can answer with those of",
        "[errors](service.md#errors), whose bodies are a [`Problem`](#problem).\n",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += [f"## {method.upper()} {path}\n", *_route_parts(operation)]
    parts.append("## Schemas\n")
    for name, schema in document["components"]["schemas"].items():
        parts += [f"### {name}\n", *_schema_parts(schema)]
    return "\n".join(parts)


def _route_parts(operation: dict[str, Any]) -> list[str]:
    ((status, answer),) = ((s, a) for s, a in operation["responses"].items() if s != "default")
    ((kind, content),) = answer["content"].items()
    told = _kind_of(content["schema"]) if kind == "application/json" else f"`{kind}`"
    parts = [
        f"{operation['description']}\n",
        f"Operation `{operation['operationId']}`, scope `{operation['x-scope']}`. Answers {status}: {told}.\n",
    ]
    named = {"query": "", "header": "the header "}
    beside = [
        f"- {named[item['in']]}`{item['name']}`: {_as_sentence(item['description']).strip()}{_bounds(item['schema'])}"
        for item in operation.get("parameters", ())
        if item["in"] in named
    ]
    parts += [*beside, ""] if beside else []
    for body in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"Body: {_kind_of(body['schema'])}.\n\n```json\n{json.dumps(body['example'])}\n```\n")
    return parts


def _bounds(schema: dict[str, Any]) -> str:
    """Return in words which values a parameter takes, and which it has when it is left out."""
    found = next((one for one in schema.get("anyOf", ()) if "enum" in one), schema)
    told = [", ".join(f"`{value}`" for value in found.get("enum", ()))]
    if "minimum" in schema:
        told.append(f"from {schema['minimum']:,} to {schema['maximum']:,}")
    if schema.get("default") is not None:
        told.append(f"`{json.dumps(schema['default'])}` by default")
    text = "; ".join(part for part in told if part)
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _schema_parts(schema: dict[str, Any]) -> list[str]:
    parts = [f"{' '.join(schema['description'].split())}\n"]
    if not schema.get("properties"):
        return parts if schema.get("type") == "object" else [*parts, f"In JSON: {_kind_of(schema)}.\n"]
    required = schema.get("required", ())
    rows = ["| field | kind | meaning |", "|---|---|---|"]
    for name, body in schema["properties"].items():
        left_out = "" if name in required else f"; {_default(body)}"
        rows.append(f"| `{name}` | {_kind_of(body)}{left_out} | {body['description']} |")
    return [*parts, *rows, ""]


def _default(body: dict[str, Any]) -> str:
    """Return what stands for a field that is left out."""
    return f"`{json.dumps(body['default'])}` by default" if "default" in body else "may be missing"


def _kind_of(schema: dict[str, Any]) -> str:
    """Return in words what a schema describes, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    told = [
        f"`{value}`" for value in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    ]
    if told:
        return ", ".join(told)
    kinds = schema.get("type", "anything")
    several = [_kind_of(one) for one in schema.get("anyOf") or schema.get("oneOf") or ()]
    if several or isinstance(kinds, list):
        return " or ".join(several or kinds)
    if kinds == "array":
        return f"list of {_kind_of(schema['items'])}"
    return _kind_of_object(schema) if kinds == "object" else str(kinds)


def _kind_of_object(schema: dict[str, Any]) -> str:
    if "properties" in schema:
        return "; ".join(f"`{name}`, {_kind_of(body)}" for name, body in schema["properties"].items())
    values = schema.get("additionalProperties")
    return f"object of {_kind_of(values)}" if isinstance(values, dict) else "object"


def library_page() -> str:
    """Return the page of the library's verbs: a heading for each, in the order of the class."""
    from steersman.client import Client
    from steersman.library import Steersman

    parts = [
        "# The library\n",
        NOTE,
        "Every verb of `Steersman`, over a database, with what it takes and returns. `Client` and `AsyncClient` have",
        "the same over HTTP ([the client](client.md)), but for those about files. Times are microseconds since 1970,",
        "UTC; the fields of what is returned are those of the answers of [the API](api.md), and the classes of",
        "[errors](errors.md) form a tree.\n",
        '```python\nfrom steersman import Steersman\n\nwith Steersman.open("steersman.db") as steersman:',
        "    print(steersman.list_tenants())\n```\n",
    ]
    for name in vars(Steersman):
        method = getattr(Steersman, name)
        if name.startswith("_") or not callable(method):
            continue
        parts += [f"## {name}\n", f"```python\n{_signature(name, method)}\n```\n", *_told(method)]
        parts += [] if hasattr(Client, name) else ["In the library alone.\n"]
    return "\n".join(parts)


def _told(method: Callable[..., Any]) -> Iterator[str]:
    """Yield what a verb does and what it raises, in the words of the use case that it names."""
    text = inspect.getdoc(method) or ""
    named = re.search(r"see `(\S+)\.(\w+)`", text)
    if named is not None:
        text = inspect.getdoc(getattr(importlib.import_module(named[1]), named[2])) or ""
    first, *others = text.split("\n\n")
    yield f"{first}\n"
    for paragraph in others:
        _, raises, errors_raised = paragraph.partition("Raises")
        if raises:
            yield textwrap.fill(f"{raises}{errors_raised}", 110) + "\n"


def _signature(name: str, method: Callable[..., Any]) -> str:
    signature = inspect.signature(method)
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{parameter.name}: {parameter.annotation}{default}")
    end = f") -> {signature.return_annotation}"
    line = f"{name}({', '.join(parts)}{end}"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {part}," for part in parts), end])


def pages() -> dict[str, str]:
    """Return the text of each generated page by its file name."""
    made = {"errors.md": errors_page(), "settings.md": settings_page()}
    if importlib.util.find_spec("steersman.library"):
        made["library.md"] = library_page()
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
