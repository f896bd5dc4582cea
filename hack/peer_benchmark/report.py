"""The figures as a table in Markdown and as a picture: bars relative to the uncapped peer."""

from __future__ import annotations

from pathlib import Path

from docs.drawing import picture, words

from .contestants import TRAINSHED

PEER, FULL_FLOOR = "training-operator-uncapped", "full floor"
FLOORS = ("floor", FULL_FLOOR)
PAGE, PICTURE = Path("docs/how-to/sizing.md"), Path("docs/pictures/performance.svg")
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
#: Medians by contestant and figure.
Medians = dict[str, dict[str, float]]
#: Pixels: the height of a row, where bars begin, and the length of a bar of ratio 1.
ROW, LEFT, ONE = 30, 420, 260
#: The longest bar that is drawn, as a ratio.
LONGEST = 1.5


def table(medians: Medians) -> str:
    """Return a table of the medians, with the ratios to the uncapped peer and to the floors."""
    head = ["", *medians, "ratio to the uncapped peer", *(f"to the {each}" for each in FLOORS)]
    lines = [f"| {' | '.join(head)} |".replace("|  |", "| |"), "|---" * len(head) + "|"]
    for what in dict.fromkeys(key for figures in medians.values() for key in figures):
        cells = [f"{medians[name][what]:g}" if what in medians[name] else "" for name in medians]
        ratios = [ratio(medians, what, other) for other in (PEER, *FLOORS)]
        shown = [f"{each:.2f}" if each else "" for each in ratios]
        lines.append(f"| {what} | {' | '.join(cells + shown)} |")
    return "\n".join(lines) + "\n"


def ratio(medians: Medians, what: str, other: str) -> float:
    """Return the operator's figure divided by another contestant's; 0 if one of them has no such figure."""
    own, theirs = (medians.get(name, {}).get(what, 0.0) for name in (TRAINSHED.name, other))
    return own / theirs if theirs else 0.0


def drawn(medians: Medians) -> str:
    """Return a bar for each figure that both have: shorter than the line at 1 is better than the uncapped peer."""
    figures = medians.get(TRAINSHED.name, {})
    rows = [(what, ratio(medians, what, PEER)) for what in figures if ratio(medians, what, PEER)]
    height = ROW * (len(rows) + 2)
    parts = [words((LEFT, ROW / 2), "Trainshed relative to training-operator 1.9.4 without limits", "small", "start")]
    for number, (what, value) in enumerate(rows, 1):
        y = ROW * (number + 0.5)
        style, length = ("good" if value < 1 else "bad"), ONE * min(value, LONGEST)
        parts.append(words((LEFT - 10, y), what, "small", "end"))
        parts.append(f'<rect class="{style}" x="{LEFT}" y="{y - 9:g}" width="{length:g}" height="18"/>')
        parts.append(words((LEFT + length + 8, y), f"{value:.2f}", "small", "start"))
    parts.append(f'<path class="arrow" d="M{LEFT + ONE} {ROW} L{LEFT + ONE} {height - ROW}"/>')
    size = LEFT + int(ONE * LONGEST) + 70, height
    return picture(size, "Time, CPU and writes relative to training-operator 1.9.4 without limits", *parts)


def write(root: Path, medians: Medians, note: str) -> None:
    """Put the table, with a note above it, and the picture into the docs."""
    page = root / PAGE
    head, _, rest = page.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n{note}\n\n{table(medians)}{END}{tail}")
    (root / PICTURE).write_text(drawn(medians))
