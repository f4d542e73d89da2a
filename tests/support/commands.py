"""Running the commands of this environment, as a person at a terminal would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["BIN", "run"]

BIN = Path(sys.executable).parent


def run(*command: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `command` in `cwd`, whose `src` folder, if any, goes before what is installed."""
    environment = os.environ | {"PYTHONPATH": str(cwd / "src"), "NO_COLOR": "1"}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
