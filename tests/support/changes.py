"""Every verb that takes the id of an operation, with what it needs, for the library and for its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from steersman.library import Steersman
from steersman.store.tables import metadata

__all__ = ["CHANGES", "FILES", "KEYS", "Call", "Scene"]

CHANGES = (
    "activate",
    "apply",
    "build_base",
    "change_tenant",
    "create_base",
    "create_key",
    "create_tenant",
    "erase_tenant",
    "freeze",
    "import_table",
    "refresh",
    "retire_tenant",
    "revoke_key",
    "roll_back",
    "rotate_key",
)
"""The verbs that change something, and whose arguments are no id of the call."""

FILES = ("apply", "import_table")
"""Those that read a file, which clients do not have."""

KEYS = ("create_key", "rotate_key")
"""Those whose answer shows a secret this once."""

_DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb."""

    verb: str
    args: tuple[Any, ...]
    options: Mapping[str, Any]

    def on(self, target: Any, operation_id: str | None) -> Any:
        """Return what a library or a client answers."""
        return getattr(target, self.verb)(*self.args, **self.options, operation_id=operation_id)


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant of two versions, a base that has something to lend to it, and files to change it with."""

    library: Steersman
    name: str  # of the tenant and of its base
    key: str  # the id of a key
    folder: Path

    @classmethod
    def found(cls, library: Steersman, folder: Path) -> Scene:
        """Make the tenant and the base, under a name that nobody has."""
        name = f"t{uuid4().hex}"
        library.create_base(name, _DECLARED)
        library.create_tenant(name, _DECLARED | {"base": name, "contributes": True})
        library.create_tenant(f"{name}-other", _DECLARED | {"base": name, "contributes": True})
        for tenant, state, action in ((name, 0, "hold"), (f"{name}-other", 1, "trade")):
            library.reward(tenant, library.decide(tenant, state, feasible=[action]).decision_id, 0.5)
        library.build_base(name)
        library.change_tenant(name, {"states": 3})
        (folder / "one.csv").write_text("state,action,q,updates\n0,hold,0.5,1\n")
        (folder / "two.csv").write_text("state,action,q,updates\n0,hold,0.25,1\n")
        for file, states in (("one.yaml", 4), ("two.yaml", 5)):
            declared = f"{{actions: [hold, trade], states: {states}}}"
            (folder / file).write_text(f"tenants: {{{name}: {declared}, {name}-new: {declared}}}\n")
        return cls(library, name, library.create_key(name, name="first").key.key_id, folder)

    def call(self, verb: str) -> Call:
        """Return a call that changes something."""
        name, new = self.name, f"{self.name}-new"
        args: dict[str, tuple[Any, ...]] = {
            "activate": (name, 1),
            "apply": (self.folder / "one.yaml",),
            "build_base": (name,),
            "change_tenant": (name, {"states": 4, "exploration": {"epsilon": 0.5}}),
            "create_base": (new, _DECLARED),
            "create_key": (name,),
            "create_tenant": (new, _DECLARED),
            "erase_tenant": (name,),
            "freeze": (name, "kept"),
            "import_table": (name, self.folder / "one.csv"),
            "refresh": (name,),
            "retire_tenant": (name,),
            "revoke_key": (self.key,),
            "roll_back": (name,),
            "rotate_key": (self.key,),
        }
        options: dict[str, dict[str, Any]] = {"create_key": {"name": "second"}, "freeze": {"version": 2}}
        return Call(verb, args[verb], options.get(verb, {}))

    def other(self, verb: str) -> Call:
        """Return a call about the same tenant or base with other content; of another verb where there is none."""
        name, new = self.name, f"{self.name}-new"
        others = {
            "activate": Call("activate", (name, 2), {}),
            "apply": Call("apply", (self.folder / "two.yaml",), {}),
            "build_base": Call("create_base", (name, _DECLARED), {}),
            "change_tenant": Call(
                "change_tenant", (name, {"states": 4, "exploration": {"epsilon": 0.25}}), {}
            ),
            "create_base": Call("create_base", (new, _DECLARED | {"states": 9}), {}),
            "create_key": Call("create_key", (name,), {"name": "second", "scopes": ["read"]}),
            "create_tenant": Call("create_tenant", (new, _DECLARED | {"states": 9}), {}),
            "freeze": Call("freeze", (name, "other"), {"version": 2}),
            "import_table": Call("import_table", (name, self.folder / "two.csv"), {}),
            "roll_back": Call("roll_back", (name,), {"to": 1}),
            "rotate_key": Call("rotate_key", (self.key,), {"overlap": 60.0}),
        }
        return others.get(verb, Call("freeze", (name, "other"), {"version": 2}))

    def owner(self, verb: str) -> str:
        """Return whose operation it is: the tenant, the base or the operators."""
        new = "-new" if verb in {"create_base", "create_tenant"} else ""
        if verb == "apply":
            return "@"
        return f"{'@' if verb.endswith('_base') else ''}{self.name}{new}"

    @property
    def operation_id(self) -> str:
        """An id that no other scene uses, since operators are the same for all."""
        return f"op/{self.name}"

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of tenants and bases whose names have this one in them, by table."""
        with self.library.database.snapshot() as connection:
            return {
                table.name: [
                    tuple(row)
                    for row in connection.execute(
                        select(table)
                        .where(table.c.tenant.contains(self.name))
                        .order_by(*table.primary_key.columns)
                    )
                ]
                for table in metadata.tables.values()
                if "tenant" in table.c
            }
