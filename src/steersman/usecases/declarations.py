"""Declarations of tenants and bases: as mappings, and from a YAML or TOML file of many."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from steersman.domain.identifiers import check_name
from steersman.domain.settings import TenantSpec
from steersman.errors import InvalidInputError, InvalidSpecError, NotFoundError
from steersman.store import tenants
from steersman.store.access import admit
from steersman.store.connection import Connection
from steersman.store.tenants import base_owner

__all__ = ["Declarations", "check_base", "read_base_spec", "read_declarations", "read_spec"]

_TYPES = {"null", "bool", "int", "float", "str", "seq", "map"}  # of YAML's core schema
_NOT_OF_A_BASE = ("base", "contributes", "reward_wait", "default_reward")


@dataclass(frozen=True, slots=True)
class Declarations:
    """What one file declares, in its order."""

    bases: Mapping[str, TenantSpec]  # by name
    tenants: Mapping[str, TenantSpec]  # by id


def read_spec(declaration: TenantSpec | Mapping[str, Any]) -> TenantSpec:
    """Return a declaration, read from a mapping where it is not one yet; raise InvalidSpecError."""
    if isinstance(declaration, TenantSpec):
        return declaration
    if isinstance(declaration, Mapping):
        _check_labels(declaration.get("actions"))
        _check_priors(declaration.get("priors"))
    return TenantSpec.from_json(declaration)


def _check_labels(actions: object) -> None:
    """Raise InvalidSpecError for a label that is no text."""
    labels: list[tuple[str, Any]] = []
    if isinstance(actions, Mapping):
        labels = [(f"actions.{action}", label) for action, label in actions.items()]
    elif isinstance(actions, (list, tuple)):
        labels = [
            (f"actions[{index}].label", item["label"])
            for index, item in enumerate(actions)
            if isinstance(item, Mapping) and "label" in item
        ]
    for place, label in labels:
        if not isinstance(label, str):
            raise InvalidSpecError(f"{place}: expected a text as the label, got {type(label).__name__}")


def _check_priors(priors: object) -> None:
    """Raise InvalidSpecError for an action that has two priors, under its number and under its text."""
    if isinstance(priors, Mapping):
        names = Counter(map(str, priors))
        repeated = [name for name, times in names.items() if times > 1]
        if repeated:
            raise InvalidSpecError(f"priors: expected each action once, got {repeated} as number and as text")


def read_base_spec(declaration: TenantSpec | Mapping[str, Any]) -> TenantSpec:
    """Return the declaration of a base, which neither starts from another nor is rewarded; raise InvalidSpecError."""
    spec = read_spec(declaration)
    wrong = [name for name in _NOT_OF_A_BASE if getattr(spec, name)]
    if wrong:
        raise InvalidSpecError(
            f"expected actions, states and settings of a base, got {wrong}, which tenants have"
        )
    return spec


def check_base(connection: Connection, spec: TenantSpec) -> None:
    """Raise InvalidSpecError when `spec` names a base that does not exist."""
    if spec.base is not None:
        admit(connection, [base_owner(spec.base)])
        try:
            tenants.get_base(connection, spec.base)
        except NotFoundError:
            raise InvalidSpecError(
                f"base: there is no base {spec.base!r}",
                hint=f"create it with: steersman base create {spec.base}",
            ) from None


def read_declarations(path: Path) -> Declarations:
    """Read `tenants` and `bases`, each a mapping of name to declaration, from a `.yaml`, `.yml` or `.toml` file.

    YAML is read as its version 1.2 has it, where OFF and NO are texts; 007 is a text too, so that an id keeps its
    zeros. A key that is written twice is refused. Raises InvalidSpecError, naming the place.
    """
    readers: dict[str, Callable[[str], Any]] = {
        ".yaml": _read_yaml,
        ".yml": _read_yaml,
        ".toml": tomllib.loads,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidSpecError(f"expected a file that ends in {', '.join(readers)}", where=str(path))
    try:
        body = reader(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        kind = "YAML" if reader is _read_yaml else "TOML"
        raise InvalidSpecError(f"expected readable {kind}: {error}", where=str(path)) from None
    known = {"bases", "tenants"}
    if not isinstance(body, Mapping) or not body or set(body) - known:
        shown = sorted(map(str, body)) if isinstance(body, Mapping) else type(body).__name__
        raise InvalidSpecError(f"expected {' and '.join(sorted(known))}, got {shown}", where=str(path))
    return Declarations(
        bases=_read_section(path, "bases", body.get("bases"), read_base_spec),
        tenants=_read_section(path, "tenants", body.get("tenants"), read_spec),
    )


def _read_section(
    path: Path, section: str, body: Any, read: Callable[[Mapping[str, Any]], TenantSpec]
) -> dict[str, TenantSpec]:
    if body is None:
        return {}
    if not isinstance(body, Mapping):
        raise InvalidSpecError("expected a mapping of name to declaration", where=f"{path}: {section}")
    found: dict[str, TenantSpec] = {}
    for key, declaration in body.items():
        name = str(key) if type(key) is int else key
        where = f"{path}: {section}.{name}"
        if name in found:
            raise InvalidSpecError("expected each name once, got it as a number and as a text", where=where)
        try:
            found[check_name(name, what="name")] = read(declaration)
        except InvalidInputError as error:
            raise InvalidSpecError(error.message, where=where, hint=error.hint) from None
    return found


class _Loader(yaml.SafeLoader):
    """YAML with the scalars of its version 1.2, no tags of other types, and without repeated keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (as the library's)
    yaml_constructors = {  # noqa: RUF012  (as the library's)
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in _TYPES
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002  (as the library's)
        """Return what a node stands for; refuse one that is not what its tag says."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, OverflowError) as error:
            kind = node.tag.rpartition(":")[2]
            shown = repr(str(node.value)[:40])
            raise yaml.constructor.ConstructorError(
                None, None, f"expected what the tag {kind} takes, got {shown}", node.start_mark
            ) from error

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Return the next mapping; refuse a key that is written twice."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.composer.ComposerError(
                        None, None, f"expected each key once, got {key.value!r} again", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node


for _tag, _pattern, _first in (
    ("null", r"(?:null|~|)\Z", ["n", "~", ""]),
    ("bool", r"(?:true|false)\Z", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]*)\Z", list("-0123456789")),
    ("float", r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z", list("-.0123456789")),
    ("merge", r"<<\Z", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def _read_yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
