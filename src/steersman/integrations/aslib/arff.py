"""Tables in ARFF, read strictly.

Why not a library: SciPy's reader refuses attributes of type string, which name the instances of every scenario, and
liac-arff has had no release since 2020 and tells neither the line of a bad cell nor the file. What scenarios use of
the format is small: dense rows of numbers, texts and nominal values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from steersman.errors import InvalidInputError

__all__ = ["ArffTable", "Cell", "read_arff"]

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|(?!['\"])\S+)\s+(\S.*)", re.IGNORECASE)
_TYPES = re.compile(r"(?:numeric|real|integer|string)\Z|\{.*\}\Z", re.IGNORECASE)
_DATA = re.compile(r"@data\s*,?\Z", re.IGNORECASE)  # some scenarios have a stray comma there
_CELL = re.compile(rf"\s*({_QUOTED}|(?!['\"])[^,]*?)\s*,")  # with a comma after the last one too
_ESCAPE = re.compile(r"\\(.)")
_MISSING = "?"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; `text` None where it is missing."""

    text: str | None
    where: str  # path:line
    column: str

    def required(self) -> str:
        """Return the text; raise InvalidInputError where it is missing or empty."""
        if not self.text:
            raise InvalidInputError(f"{self.column}: expected a value, got none", where=self.where)
        return self.text

    def number(self) -> float:
        """Return the number, NaN where it is missing; raise InvalidInputError for anything else."""
        if self.text is None:
            return math.nan
        try:
            value = float(self.text)
        except ValueError:
            value = math.inf
        if not math.isfinite(value):
            raise InvalidInputError(
                f"{self.column}: expected a finite number or ?, got {self.text!r}", where=self.where
            )
        return value


@dataclass(frozen=True, slots=True)
class ArffTable:
    """The rows of one file; cells are kept as text."""

    path: Path
    columns: tuple[str, ...]  # [C] str
    rows: tuple[tuple[int, tuple[str | None, ...]], ...]  # line number and cells [C], None where missing

    def column(self, name: str) -> list[Cell]:
        """Return the cells of the column `name`, whose case does not matter; raise InvalidInputError without one."""
        lowered = [column.lower() for column in self.columns]
        if name.lower() not in lowered:
            raise InvalidInputError(
                f"expected an attribute {name}, got {list(self.columns)}", where=str(self.path)
            )
        position = lowered.index(name.lower())
        return [Cell(cells[position], f"{self.path}:{line}", name) for line, cells in self.rows]


def read_arff(path: Path) -> ArffTable:
    """Read the file `path`: dense rows of numeric, string and nominal attributes.

    Raises InvalidInputError at `path:line` for anything else, and for a file that cannot be read.
    """
    columns: list[str] = []
    rows: list[tuple[int, tuple[str | None, ...]]] = []
    in_data = False
    for number, line in enumerate(_lines(path), 1):
        text, where = line.strip(), f"{path}:{number}"
        if not text or text.startswith("%"):
            continue
        if in_data:
            cells = _split(text, where)
            if len(cells) != len(columns):
                raise InvalidInputError(f"expected {len(columns)} cells, got {len(cells)}", where=where)
            rows.append((number, tuple(cells)))
        elif _DATA.match(text):
            in_data = True
        elif not text.lower().startswith("@relation"):
            columns.append(_attribute(text, where))
    if not in_data or not rows:
        raise InvalidInputError("expected @data and rows after it, got none", where=str(path))
    if len({column.lower() for column in columns}) != len(columns):
        raise InvalidInputError(f"expected distinct attributes, got {columns}", where=str(path))
    return ArffTable(path, tuple(columns), tuple(rows))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InvalidInputError(
            f"expected a file that can be read, got: {error.strerror}", where=str(path)
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"expected UTF-8, got {error.reason}", where=str(path)) from error


def _attribute(text: str, where: str) -> str:
    found = _ATTRIBUTE.match(text)
    if found is None or not _TYPES.match(found[2].strip()):
        raise InvalidInputError(
            f"expected @attribute with a name and numeric, string or {{values}}, got {text[:80]!r}",
            where=where,
        )
    return _unquoted(found[1])


def _split(text: str, where: str) -> list[str | None]:
    cells: list[str | None] = []
    line, position = f"{text},", 0
    while position < len(line):
        found = _CELL.match(line, position)
        if found is None or text.startswith("{"):
            raise InvalidInputError(
                f"expected cells with commas between them, got {text[position : position + 40]!r}",
                where=where,
            )
        cells.append(None if found[1] == _MISSING else _unquoted(found[1]))
        position = found.end()
    return cells


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(r"\1", text[1:-1]) if text[:1] in ("'", '"') else text
