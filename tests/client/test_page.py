"""What the page about the client shows, runs."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from steersman.client import Client
from steersman.client.lists import LARGEST_LIST, LONGEST_LIST
from steersman.domain.records import Decision
from tests.house.rules import ROOT
from tests.support.served import Server

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
STATES = {
    "factors": [{"name": "stage", "values": ["open", "late"]}, {"name": "gap", "values": ["narrow", "wide"]}]
}


def test_the_examples_run(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.library.create_tenant("acme", {"actions": ["firm", "split", "concede"], "states": STATES})
    names: dict[str, Any] = {"url": server.url, "key": server.library.create_key("acme", name="page").text}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for block in blocks:
        exec(compile(block, "client.md", "exec"), names)
    (action, propensity), (learned,), *log = map(str.split, capsys.readouterr().out.splitlines())
    # Neither of the two feasible actions was tried before, so both are equally likely.
    assert (action in {"firm", "split"}, float(propensity)) == (True, 0.5)
    assert learned == "2"
    # Newest first: the episode, where the last of two was rewarded, the tasks, and the first example.
    assert [line[2] for line in log] == ["0.1", "0", "0.4", "0.4", "0.7"]
    assert log[-1][:2] == [action, propensity]
    assert (len(blocks), names["refused"]) == (6, [])
    assert all(isinstance(answer, Decision) for answer in names["answers"])
    assert server.library.verify("acme").clean


def test_the_page_tells_the_defaults() -> None:
    told = dict(re.findall(r"^    (\w+)=([\d.]+),  # ", PAGE, re.MULTILINE))
    parameters = inspect.signature(Client).parameters
    assert told == {name: str(parameters[name].default) for name in told}
    assert set(told) == set(parameters) - {"url", "key"}


def test_the_page_tells_how_lists_are_split() -> None:
    assert f"at most {LONGEST_LIST} items and half a megabyte" in " ".join(PAGE.split())
    assert LARGEST_LIST == 500_000
