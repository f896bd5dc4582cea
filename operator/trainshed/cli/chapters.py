"""Prints stories: a headline, and chapters with their titles beside the lines."""

from __future__ import annotations

import click

from trainshed.views.chapter import Story

from .tables import terminal_width, titled

#: The columns of the titles.
TITLES = 13


def show(story: Story, colour: str | None = None) -> None:
    """Print a story, as wide as the terminal; `colour` is that of the headline."""
    width = terminal_width()
    click.echo(click.style(titled("", 0, story.headline, width), colour))
    for chapter in story.chapters:
        click.echo()
        for number, line in enumerate(chapter.lines):
            title = chapter.title if number == 0 else ""
            click.echo(titled(click.style(f"{title:<{TITLES}}", bold=True), TITLES, line, width))
