"""What others wrote must not steer a terminal, and an interrupt ends the program quietly from the first moment."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO

import pytest
from rich.table import Table

from steersman.console.terminal import UntrustingConsole, harmless
from tests.cli.conftest import Run

CLEAR = "\x1b[2J"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"scene{CLEAR}", "scene?[2J"),
        ("bell\x07 back\x08 delete\x7f", "bell? back? delete?"),
        ("c1 \x9b31m", "c1 ?31m"),
        ("turned \u202eabc \u2066d", "turned ?abc ?d"),
        ("kept\n\tas it is: é 中", "kept\n\tas it is: é 中"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_a_question_mark(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_texts_in_tables_are_harmless_and_the_styles_of_the_console_stay() -> None:
    table = Table(title=f"title{CLEAR}")
    table.add_column(f"head{CLEAR}", style="bold")
    table.add_row(f"cell{CLEAR} [red]x[/red]")
    out = StringIO()
    UntrustingConsole(file=out, force_terminal=True, width=60, color_system="standard").print(table)
    assert CLEAR not in out.getvalue()
    assert "cell?[2J [red]x[/red]" in out.getvalue()
    assert "\x1b[1m" in out.getvalue()


def test_an_error_does_not_pass_a_callers_text_on(run: Run) -> None:
    done = run("fit", "--teacher", f"nobody{CLEAR}", "--output", "x.safetensors")
    assert "\x1b" not in done.stderr
    assert "nobody" in done.stderr


def test_an_interrupt_while_modules_load_ends_quietly() -> None:
    program = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'steersman.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from steersman.cli.entry import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
