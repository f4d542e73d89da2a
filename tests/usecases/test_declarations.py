"""A file of many tenants and bases: read strictly and applied all or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.errors import InvalidSpecError, SteersmanError, TenantRetiredError
from steersman.library import Steersman
from steersman.usecases.apply import Applied, apply_file
from steersman.usecases.bases import list_bases, show_base
from steersman.usecases.declarations import read_declarations
from steersman.usecases.tenants import audit_trail, list_tenants, retire, show_tenant
from steersman.usecases.versions import list_versions

YAML = """
bases:
  buyers:
    actions: [OFF, FUSE, 007]
    states: 3
tenants:
  acme: &acme
    actions: {OFF: Do nothing, FUSE: Fuse, 12: Twelfth}
    states:
      factors:
        - {name: stage, values: [open, late, NO]}
        - {name: gap, edges: [.1, 3e-1]}
    learning: {alpha: 1/n, lambda: 0.5}
    base: buyers
    contributes: true
  4711:
    <<: *acme
    contributes: false
"""

TOML = """
[bases.buyers]
actions = ["OFF", "FUSE", "007"]
states = 3

[tenants.acme]
actions = {OFF = "Do nothing", FUSE = "Fuse", 12 = "Twelfth"}
states.factors = [
  {name = "stage", values = ["open", "late", "NO"]},
  {name = "gap", edges = [0.1, 0.3]},
]
learning = {alpha = "1/n", lambda = 0.5}
base = "buyers"
contributes = true

[tenants.4711]
actions = {OFF = "Do nothing", FUSE = "Fuse", 12 = "Twelfth"}
states.factors = [
  {name = "stage", values = ["open", "late", "NO"]},
  {name = "gap", edges = [0.1, 0.3]},
]
learning = {alpha = "1/n", lambda = 0.5}
base = "buyers"
contributes = false
"""


def written(folder: Path, text: str, name: str = "file.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "text"), [("a.yaml", YAML), ("a.yml", YAML), ("a.toml", TOML)])
def test_yaml_and_toml_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    declared = read_declarations(written(tmp_path, text, name))
    assert list(declared.bases) == ["buyers"]
    assert declared.bases["buyers"].actions.ids == ("OFF", "FUSE", "007")
    assert list(declared.tenants) == ["acme", "4711"]
    acme = declared.tenants["acme"]
    assert acme.actions.ids == ("OFF", "FUSE", "12")
    assert acme.labels == ("Do nothing", "Fuse", "Twelfth")
    stage, gap = acme.states.factors
    assert (stage.values, gap.edges) == (("open", "late", "NO"), (0.1, 0.3))
    assert (acme.settings.alpha, acme.settings.lam, acme.base) == (None, 0.5, "buyers")
    assert (acme.contributes, declared.tenants["4711"].contributes) == (True, False)


@pytest.mark.parametrize(
    ("name", "text", "where", "message"),
    [
        ("x.json", "{}", "", "ends in .yaml, .yml, .toml"),
        ("x.yaml", "", "", "expected bases and tenants, got NoneType"),
        ("x.yaml", "[]", "", "expected bases and tenants, got list"),
        ("x.yaml", "tenant: {}", "", r"expected bases and tenants, got \['tenant'\]"),
        ("x.yaml", "tenants: [a]", ": tenants", "a mapping of name to declaration"),
        ("x.yaml", "tenants: {a: 1}", ": tenants.a", "expected a mapping with"),
        ("x.yaml", "tenants: {a: {actions: [x]}}", ": tenants.a", r"missing \['states'\]"),
        ("x.yaml", "tenants: {'a b': {actions: [x], states: 1}}", ": tenants.a b", "name: expected 1 to 64"),
        ("x.yaml", "tenants: {1: {actions: [x], states: 1}, '1': {}}", ": tenants.1", "each name once"),
        ("x.yaml", "tenants: {a: {actions: [x], states: 1}, a: {}}", "", "each key once, got 'a' again"),
        ("x.yaml", "tenants: {a: {actions: [x, x], states: 1}}", ": tenants.a", "distinct action ids"),
        ("x.yaml", "tenants: {a: {actions: [true], states: 1}}", ": tenants.a", "actions\\[0\\]"),
        ("x.yaml", "bases: {b: {actions: [x], states: 1, base: c}}", ": bases.b", "which tenants have"),
        ("x.yaml", "tenants: {a: {actions: [x], states: [1}", "", "expected readable YAML"),
        ("x.yaml", "tenants: !!python/object:os.system {}", "", "expected readable YAML"),
        ("x.yaml", "[" * 20_000, "", "expected readable YAML"),
        (
            "x.yaml",
            "tenants: {a: {contributes: !!bool maybe}}",
            "",
            r"tag bool takes, got 'maybe'[\s\S]*line 1, column 28",
        ),
        (
            "x.yaml",
            "tenants: {a: {borrow_cap: !!int ''}}",
            "",
            r"tag int takes, got ''[\s\S]*line 1, column 27",
        ),
        ("x.yaml", "tenants: {a: {borrow_cap: !!float ''}}", "", "tag float takes"),
        ("x.yaml", "tenants: {a: {borrow_cap: !!int x}}", "", r"tag int takes[\s\S]*column 27"),
        (
            "x.yaml",
            "tenants: {a: {base: !!timestamp abc}}",
            "",
            r"'tag:yaml.org,2002:timestamp'[\s\S]*column 21",
        ),
        ("x.yaml", "tenants: {a: {base: !!timestamp 2026-01-31}}", "", "timestamp"),
        ("x.yaml", "tenants: {a: {actions: !!binary YWI=, states: 1}}", "", "binary"),
        ("x.yaml", "tenants: {a: {actions: !!set {x}, states: 1}}", "", "2002:set"),
        (
            "x.yaml",
            "tenants: {a: {actions: {x: }, states: 1}}",
            ": tenants.a",
            "actions.x: expected a text .* NoneType",
        ),
        (
            "x.yaml",
            "tenants: {a: {actions: {x: [y]}, states: 1}}",
            ": tenants.a",
            "actions.x: expected a text .* list",
        ),
        (
            "x.yaml",
            "bases: {a: {actions: [y, {id: x, label: ~}], states: 1}}",
            ": bases.a",
            r"actions\[1\].label: expected",
        ),
        (
            "x.yaml",
            "tenants: {a: {actions: [1], states: 1, priors: {1: {q: 0, weight: 1}, '1': {q: 1, weight: 1}}}}",
            ": tenants.a",
            r"priors: expected each action once, got \['1'\]",
        ),
        ("x.toml", "[tenants.a]\nactions = [\n", "", "expected readable TOML"),
        ("x.toml", "[tenants.a]\nactions=['x']\nactions=['y']\n", "", "expected readable TOML"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_file_is_refused(tmp_path: Path, name: str, text: str, where: str, message: str) -> None:
    path = written(tmp_path, text, name)
    with pytest.raises(InvalidSpecError, match=message) as raised:
        read_declarations(path)
    assert raised.value.where == f"{path}{where}"


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="No such file"):
        read_declarations(tmp_path / "missing.yaml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidSpecError, match="expected readable TOML"):
        read_declarations(tmp_path / "bytes.toml")


def test_a_file_is_applied_and_applied_again(store_url: str, tmp_path: Path) -> None:
    with Steersman.open(store_url) as library:
        database = library.database
        path = written(tmp_path, YAML)
        assert apply_file(database, path) == [
            Applied("base", "buyers", "created"),
            Applied("tenant", "4711", "created"),
            Applied("tenant", "acme", "created"),
        ]
        library.decide("acme", {"stage": "NO", "gap": 0.2})
        again = apply_file(database, path)
        assert [item.outcome for item in again] == ["unchanged"] * 3
        assert [line.verb for line in audit_trail(database, "acme")] == ["start", "create"]
        changed = YAML.replace("FUSE: Fuse", "FUSE: Melt").replace("states: 3", "states: 4")
        changed = changed.replace("lambda: 0.5", "lambda: 0.25")
        base, other, acme = apply_file(database, written(tmp_path, changed))
        assert (base.outcome, other.outcome, acme.outcome) == ("changed", "changed", "changed")
        assert acme.plan is not None
        assert (acme.plan.version, acme.plan.changed) == (2, ("labels", "learning"))
        assert other.plan is not None
        assert other.plan.version is None  # it has not decided anything
        assert show_base(database, "buyers").spec.states.size == 4
        assert show_tenant(database, "acme").spec.labels == ("Do nothing", "Melt", "Twelfth")


@pytest.mark.parametrize(
    ("last", "error", "message"),
    [
        (
            "zulu: {actions: [x], states: 1, base: nothing}",
            InvalidSpecError,
            "tenants.zulu: base: there is no base",
        ),
        ("zulu: {actions: [x], states: 2}", TenantRetiredError, "'zulu' is retired"),
    ],
)
def test_a_file_is_applied_as_a_whole_or_not_at_all(
    store_url: str, tmp_path: Path, last: str, error: type[SteersmanError], message: str
) -> None:
    with Steersman.open(store_url) as library:
        database = library.database
        for tenant in ("acme", "zulu"):
            library.create_tenant(tenant, {"actions": ["x"], "states": 1})
            library.decide(tenant, 0)
        if error is TenantRetiredError:
            retire(database, "zulu")
        with pytest.raises(error, match=message):
            apply_file(database, written(tmp_path, f"{YAML}  {last}\n"))
        assert list_bases(database) == []
        assert [owner.tenant for owner in list_tenants(database)] == ["acme", "zulu"]
        assert len(list_versions(database, "acme")) == 1


def test_a_retired_tenant_may_stand_in_a_file_as_it_is(store_url: str, tmp_path: Path) -> None:
    with Steersman.open(store_url) as library:
        path = written(tmp_path, YAML)
        library.apply(path)
        library.retire_tenant("acme")
        assert [item.outcome for item in library.apply(str(path))] == ["unchanged"] * 3
        changed = written(tmp_path, YAML.replace("lambda: 0.5", "lambda: 0.25"))
        with pytest.raises(TenantRetiredError, match="'acme' is retired") as raised:
            library.apply(changed)
        assert raised.value.where == f"{changed}: tenants.acme"
        assert library.show_tenant("4711").spec.settings.lam == 0.5


def test_what_is_not_in_the_file_stays(store_url: str, tmp_path: Path) -> None:
    with Steersman.open(store_url) as library:
        library.create_tenant("other", {"actions": ["x"], "states": 1})
        apply_file(library.database, written(tmp_path, "tenants: {a: {actions: [x], states: 1}}"))
        assert [owner.tenant for owner in list_tenants(library.database)] == ["a", "other"]
