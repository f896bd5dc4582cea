"""The pictures of the page: its own HTML and styles within an SVG, which loads nothing and runs no script."""

from __future__ import annotations

import re
from functools import cache

from trainshed.ui.listening import STATIC
from trainshed.ui.model import PageFrame
from trainshed.ui.pages import job, jobs

from . import shown_jobs

#: The width of the pictures, and that of a rem, in px.
WIDTH, REM = 1200, 15
#: What a picture does not need: what is closed, and what a pointer shows.
UNSEEN = re.compile(r"<details.*?</details>|<title>.*?</title>", re.DOTALL)
#: The beginning of an element, and its attributes; those that styles do not need are left out.
START = re.compile(r'<([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^\s=>"/]+(?:="[^"]*")?)*)\s*>')
ATTRIBUTE = re.compile(r'\s+([^\s=>"/]+)(?:="([^"]*)")?')
LEFT_OUT = re.compile("data-.*|title|aria-(?!current).*|scope|role|tabindex|datetime|method|action|name")
#: Elements of HTML that have no end.
VOID = ("input", "br", "hr")
OF_SVG, OF_HTML = 'xmlns="http://www.w3.org/2000/svg"', 'xmlns="http://www.w3.org/1999/xhtml"'
#: The styles for screens up to a width, and what a picture has besides.
NARROW = re.compile(r"@media \(max-width: ([\d.]+)rem\) \{(.*?)\n\}", re.DOTALL)
FRAME = ".screen { height: 100%; overflow: hidden; border: 1px solid var(--line); border-radius: 8px; }"


def list_of_jobs() -> str:
    """Draw the page of all jobs."""
    frame = PageFrame(shown_jobs.NOW, "research")
    return _picture("The page of all jobs", 1200, str(jobs.page(shown_jobs.cluster(), jobs.Filters(), frame)))


def one_job() -> str:
    """Draw the page of a job that had too little memory."""
    file, now = shown_jobs.out_of_memory()
    return _picture("The page of a job that has failed", 1575, str(job.page(file, PageFrame(now, "research"))))


def _picture(title: str, height: int, page: str) -> str:
    """Return the upper part of a page as an SVG of this height."""
    body = re.sub(r".*<body[^>]*>|</body>.*", "", page, flags=re.DOTALL)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return (
        f'<svg {OF_SVG} {size} role="img" aria-label="{title}">\n<style>{_styles()}</style>\n'
        f'<foreignObject width="{WIDTH}" height="{height}">\n'
        f'<div {OF_HTML} class="screen">{_as_xml(body)}</div>\n</foreignObject>\n</svg>\n'
    )


def _as_xml(html: str) -> str:
    """Return HTML as XML: every element ends, every attribute has a value, and SVG says that it is SVG."""
    return START.sub(_start, UNSEEN.sub("", html))


def _start(found: re.Match[str]) -> str:
    name, attributes = found.groups()
    kept = [f'{key}="{value}"' for key, value in ATTRIBUTE.findall(attributes) if not _is_left_out(name, key)]
    language = [OF_SVG] if name == "svg" else []
    return f"<{' '.join((name, *language, *kept))}{'/' if name in VOID else ''}>"


def _is_left_out(name: str, attribute: str) -> bool:
    return bool(LEFT_OUT.fullmatch(attribute)) or (name, attribute) == ("a", "href")


@cache
def _styles() -> str:
    """Return the rules of the pages as a screen of this width has them; an image has no screen of its own."""
    text = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("style.css", "job.css"))
    text = NARROW.sub(lambda found: found[2] if float(found[1]) * REM >= WIDTH else "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).replace("html {", ":root, .screen {")
    return re.sub(r"\s*([{};\n])\s*", r"\1", text + FRAME).replace("\n", "")
