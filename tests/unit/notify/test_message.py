"""A message has a bounded size, and nothing that others have written acts in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from trainshed.api.job import JobKey
from trainshed.notify.message import FORMATS, compose, encoded
from trainshed.views.chapter import Chapter, Story

HOSTILE = "<!channel> <@U1> <https://evil.example|ok> & @here [x](https://evil.example) \x1b[31m\u202ered\nline"
KEY, NOW = JobKey("ml", "TFJob", "mnist"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_message(headline: str = HOSTILE, lines: tuple[str, ...] = (HOSTILE,), base: str = "https://sheds.example.com"):
    story = Story(headline, (Chapter("Asked for", ("8 GPUs",)), Chapter("Failure", lines)))
    return compose("id-1", "Failed", (KEY, "uid-1"), story, (NOW, base))


@pytest.mark.parametrize("form", FORMATS)
def test_a_message_is_bounded_however_long_the_story_is(form: str):
    story = Story("x" * 5000, tuple(Chapter(f"Part {n}", ("<" * 9000,) * 500) for n in range(99)))
    body = encoded(compose("id-1", "Failed", (KEY, "uid-1"), story, (NOW, "")), form)
    assert len(body) <= 28_000 + 3 * 10_000 * (form == "slack")  # each `<` is four characters there
    blocks = json.loads(body).get("blocks", [])
    assert len(blocks) <= 50
    assert max((len(block["text"]["text"]) for block in blocks), default=0) <= 9 * 4 * 250


def test_plain_json_has_the_whole_story():
    found = json.loads(encoded(a_message("TFJob ml/mnist has failed.", ("worker-0 failed",)), "json"))
    assert found == {
        "id": "id-1",
        "time": "2026-01-02T03:04:05Z",
        "state": "Failed",
        "kind": "TFJob",
        "namespace": "ml",
        "name": "mnist",
        "uid": "uid-1",
        "text": "TFJob ml/mnist has failed.",
        "story": [{"title": "Failure", "lines": ["worker-0 failed"]}],
        "url": "https://sheds.example.com/jobs/ml/TFJob/mnist",
    }


def test_slack_finds_no_mention_and_no_link_in_what_others_have_written():
    found = json.loads(encoded(a_message(), "slack"))
    texts = [found["text"], *(block["text"]["text"] for block in found["blocks"][:-1])]
    assert all("<" not in text and ">" not in text for text in texts)
    assert "&lt;!channel&gt;" in texts[0]
    assert (found["parse"], found["link_names"]) == ("none", False)
    assert all(block["text"]["verbatim"] for block in found["blocks"])
    assert found["blocks"][-1]["text"]["text"].startswith("<https://sheds.example.com/jobs/ml/TFJob/mnist|")


def test_teams_has_only_text_without_markup():
    found = json.loads(encoded(a_message(), "teams"))
    (attachment,) = found["attachments"]
    card = attachment["content"]
    assert {row["type"] for row in card["body"]} == {"RichTextBlock"}
    assert {run["type"] for row in card["body"] for run in row["inlines"]} == {"TextRun"}
    assert card["actions"][0]["url"] == "https://sheds.example.com/jobs/ml/TFJob/mnist"
    assert json.loads(encoded(a_message(base=""), "teams"))["attachments"][0]["content"]["actions"] == []


@pytest.mark.parametrize("form", FORMATS)
def test_no_message_has_control_characters_or_turns_text(form: str):
    body = json.dumps(json.loads(encoded(a_message(), form)), ensure_ascii=False)
    assert "\x1b" not in body
    assert "\u202e" not in body
    assert a_message().text.count("\n") == 2
    assert a_message().title == "Failed: TFJob ml/mnist"
