"""What happens where an extra is not installed."""

from __future__ import annotations

import pytest

from steersman.errors import MissingExtraError
from tests.house.rules import ROOT
from tests.support.commands import BIN, run

ABSENT = """
import sys
sys.modules["{package}"] = None
from steersman.errors import MissingExtraError
try:
    {statement}
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "extra", "purpose", "statement"),
    [
        ("negmas", "negmas", "negotiating with NegMAS", "import steersman.integrations.negmas.cards"),
        (
            "matplotlib",
            "plots",
            "drawing learning curves",
            "from steersman.integrations.negmas.curves import check_can_draw; check_can_draw()",
        ),
    ],
)
def test_the_error_names_the_command_that_installs_it(
    package: str, extra: str, purpose: str, statement: str
) -> None:
    program = ABSENT.format(package=package, statement=statement)
    done = run(BIN / "python", "-c", program, cwd=ROOT)
    assert done.stderr == ""
    assert done.stdout.strip() == str(MissingExtraError(extra, purpose=purpose))
    assert f"pip install 'steersman[{extra}]'" in done.stdout


def test_integrations_alone_need_nothing() -> None:
    program = ABSENT.format(package="negmas", statement="import steersman.integrations, steersman.cli.app")
    done = run(BIN / "python", "-c", program, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("", "")
