"""A console for texts of others: it passes nothing on to the terminal that the terminal would obey."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

__all__ = ["UntrustingConsole", "harmless", "write_error"]

# Control characters of both kinds, and those that turn the direction of what follows; a new line and a tab are text.
_OBEYED = dict.fromkeys(
    (
        *(code for code in range(0x20) if chr(code) not in "\n\t"),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ),
    "?",
)


def harmless(text: str) -> str:
    """Return `text` with a question mark for each character that a terminal would obey."""
    return text.translate(_OBEYED)


class UntrustingConsole(Console):
    """Prints what rows, checkpoints and callers hold as text: no markup, no emoji codes, no control characters."""

    def __init__(self, **options: Any) -> None:
        """Take the options of `rich.console.Console`."""
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return `text` as a renderable; made harmless here, it is measured as it will be shown."""
        return super().render_str(harmless(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of `renderable`, harmless but for the console's own styles."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def write_error(text: str) -> None:
    """Print `text` in one unbroken line on the standard error, red where that may have colours."""
    UntrustingConsole(stderr=True, highlight=False).print(text, style="red", soft_wrap=True)
