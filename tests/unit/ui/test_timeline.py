"""The drawings: their geometry, to the percent; what they say to screen readers; and their limits."""

from __future__ import annotations

import re
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from support.broken_jobs import BROKEN, WELL, lives
from support.builders import T0, at
from support.played_jobs import Life, Play, a_document
from trainshed.api.status import Status
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.ui import job_history
from trainshed.ui.drawings import axis, curves, patterns, time_bar, timeline
from trainshed.ui.drawings.axis import Scale
from trainshed.ui.drawings.sparkline import sparkline
from trainshed.ui.job_history import History
from trainshed.ui.model import Sample
from trainshed.ui.replica_history import Act, Mark, Sign
from trainshed.ui.seen_facts import facts_of, lives_of


def history_of(play: Play, now: float) -> History:
    file = play.file(now)
    facts = facts_of(file, at(now))
    assert facts
    return job_history.history(facts, lives_of(file.pods))


def drawn(history: History, link: str = "?replicas=all") -> ET.Element:
    """The timeline, parsed: it is well-formed XML, whatever is in it."""
    return ET.fromstring(str(timeline.draw(history, link)))


def row(found: ET.Element, name: str) -> ET.Element:
    return next(one for one in found.iter("tr") if "".join(one[0].itertext()) == name)


def bars(found: ET.Element) -> list[tuple[str, float, float]]:
    """The areas of a row: class, begin and end in percent."""
    places = [
        (one.get("class", ""), float(one.get("x", "")[:-1]), float(one.get("width", "")[:-1]))
        for one in found.iter("rect")
    ]
    return [(name, begin, round(begin + width, 2)) for name, begin, width in places]


def test_a_bar_from_a_to_b_seconds_is_at_these_shares_of_the_width():
    life = Life("worker-1", scheduled=10, started=40, ended=90, code=1)
    found = history_of(Play(a_document(), lives(life)), 100)
    scale = timeline.scale_of(found)
    assert (scale.begin, scale.end) == (T0, T0 + timedelta(seconds=102))
    expected = [("act-scheduling", 0, 10), ("act-image-pull", 10, 40), ("act-running", 40, 90)]
    assert bars(row(drawn(found), "worker-1")) == [
        (name, pytest.approx(begin / 1.02, abs=0.01), pytest.approx(end / 1.02, abs=0.01))
        for name, begin, end in expected
    ]


def test_a_mark_is_at_the_time_of_the_failure_and_says_its_cause():
    life = Life("worker-1", ended=51, code=137, reason="OOMKilled")
    found = row(drawn(history_of(Play(a_document(restart="Never"), lives(life)), 100)), "worker-1")
    mark = next(one for one in found.iter("svg") if one.get("class") == "mark")
    assert float(mark.get("x", "")[:-1]) == pytest.approx(50, abs=0.01)
    assert mark.find("title").text == "12:00:51 failed (OOMKilled, exit code 137)"


def test_the_line_of_now_is_where_the_past_ends():
    found = drawn(history_of(Play(a_document(), lives()), 100))
    now = next(one for one in found.iter("line") if one.get("class") == "now")
    assert float(now.get("x1", "")[:-1]) == pytest.approx(100 / 1.02, abs=0.01)


def test_a_limit_that_is_near_has_its_dashed_line_up_to_its_time_and_one_further_away_an_arrow_at_the_edge():
    def tip(deadline: int) -> tuple[float, str]:
        play = Play(a_document(policy={"activeDeadlineSeconds": deadline}), lives())
        found = row(drawn(history_of(play, 1000)), "activeDeadlineSeconds")
        dashes, mark = next(found.iter("line")), next(one for one in found.iter("path"))
        return float(dashes.get("x2", "")[:-1]), mark.get("d", "")

    # 1251 s of 1271 s, as the job became active after a second
    assert tip(1250) == (pytest.approx(1251 / 12.71, abs=0.01), "M0-6v12")
    assert tip(90_000) == (100.0, "M-7-4l6 4-6 4z")


def test_each_row_says_in_words_what_it_draws():
    found = row(drawn(history_of(Play(a_document(), lives()), 100)), "worker-1")
    bars_of = next(one for one in found.iter("svg") if one.get("role") == "img")
    assert bars_of.get("aria-label") == "worker-1: Scheduling for 2s, ImagePull for 26s, Running for 72s"


def test_the_bars_of_an_attempt_on_another_node_than_the_present_one_name_it():
    play, now = BROKEN["evicted"]()
    found = drawn(history_of(play, now))
    named = {name: [one.text for one in row(found, name).iter("text")] for name in ("worker-0", "worker-1")}
    assert named == {"worker-0": [], "worker-1": ["gpu-node-03"]}
    titles = [one.text for one in row(found, "worker-1").iter("title")]
    assert [text.endswith("on gpu-node-03") for text in titles if "Running" in text] == [True]


def test_the_replica_for_which_the_others_wait_is_marked_by_a_shape_and_in_words():
    play, now = WELL["stalled-rank"]()
    history = history_of(play, now)
    late = row(drawn(history), "▼ worker-1 is behind")
    assert (late.get("class"), "".join(late[3].itertext())[:8]) == ("straggler", "▼ behind")
    seen = [one for one in late[0].iter("span") if one.get("aria-hidden")]
    assert [one.text for one in seen] == ["▼ "], "a screen reader reads the words instead"
    (mark,) = (one for one in late.iter("svg") if one.get("class") == "mark")
    assert (mark.find("path").get("class"), mark.find("path").get("d")) == (
        "sign sign-behind",
        patterns.SHAPES[Sign.BEHIND],
    )
    assert mark.find("title").text.endswith(" is behind, and the others wait for it")
    stopped = next(begin for name, begin, _ in bars(row(drawn(history), "job")) if name == "act-stalled")
    assert float(mark.get("x", "")[:-1]) == pytest.approx(stopped, abs=0.01), "where the training stopped"
    label = next(one for one in late.iter("svg") if one.get("role") == "img").get("aria-label")
    assert label.endswith("is behind, and the others wait for it")
    others = [one for one in history.rows if one.name != "worker-1"]
    assert not any(one.behind or one.marks for one in others)
    assert " behind " in "".join(ET.fromstring(str(timeline.legend(history))).itertext())


def test_a_late_replica_of_a_large_job_has_a_row_of_its_own():
    play = many(599)
    history = history_of(play, 100)
    rows = [
        replace(one, behind=True, marks=(Mark(Sign.BEHIND, at(90), "is behind"),)) if one.name == "worker-321" else one
        for one in history.rows
    ]
    found = drawn(replace(history, rows=tuple(rows)))
    assert row(found, "▼ worker-321 is behind") is not None


def test_every_act_but_the_plain_ones_has_a_pattern_and_every_sign_a_shape_of_its_own():
    sheet = ET.fromstring(str(patterns.sheet()))
    names = {one.get("id", "") for one in sheet.iter("pattern")}
    plain = {Act.RUNNING, Act.TERMINATING}
    assert {f"p-{patterns.css_class(act)}" for act in Act if act not in plain} | {"p-lost-work"} == names
    assert len({patterns.SHAPES[sign] for sign in Sign}) == len(Sign)


def many(count: int, *others: Life) -> Play:
    known = {one.replica for one in others}
    pods = [Life(f"worker-{n}", started=20 + n % 7, node=f"node-{n // 8}") for n in range(count)]
    found = [Life("master-0"), *(one for one in pods if one.replica not in known), *others]
    return Play(a_document(Master=1, Worker=count), tuple(found))


@pytest.mark.parametrize(("count", "rows"), [(63, 64), (64, 6), (599, 6)])
def test_a_large_job_shows_its_worst_replicas_and_one_row_for_all_others(count, rows):
    play = many(count, Life(f"worker-{count - 1}", ended=60, code=1), Life("worker-7", started=None))
    found = drawn(history_of(play, 100))
    names = ["".join(one[0].itertext()) for one in found.iter("tr")][2:]
    shown = [name for name in names if name.startswith(("master", "worker"))]
    assert len(shown) == rows
    assert {f"worker-{count - 1}", "worker-7"} <= set(shown)
    assert names[-1] == (f"{count + 1 - rows} others" if count > 63 else "worker-62")


def test_the_row_of_all_others_leads_to_all_rows_and_has_their_shares_over_time():
    found = row(drawn(history_of(many(599, Life("worker-3", ended=60, code=1)), 120)), "595 others")
    assert found.find(".//a").get("href") == "?replicas=all"
    titles = [one.text for one in found.iter("title")]
    assert titles[0] == "595 of 595: Scheduling"
    assert titles[-1] == "595 of 595: Running"
    assert len(titles) < 30


def test_of_a_large_job_that_fails_as_a_whole_only_some_rows_are_shown():
    lives_of_all = tuple(Life(f"worker-{n}", ended=60, code=1) for n in range(99))
    play = Play(a_document(restart="Never", Master=1, Worker=99), (Life("master-0"), *lives_of_all))
    found = drawn(history_of(play, 100))
    assert sum("worker-" in "".join(one[0].itertext()) for one in found.iter("tr")) == timeline.WORST


def test_with_all_rows_none_is_left_out():
    found = drawn(history_of(many(100), 100), link="")
    assert sum("worker" in "".join(one[0].itertext()) for one in found.iter("tr")) == 100


@pytest.mark.parametrize(
    ("seconds", "step", "labels"),
    [
        (5, 1, ["12:00:00", "12:00:01"]),
        (100, 30, ["12:00:00", "12:00:30"]),
        (5400, 900, ["12:00", "12:15"]),
        (18_000, 3600, ["12:00", "13:00"]),
        (3 * 86_400, 43_200, ["12:00", "2 Jan"]),
        (20 * 604_800, 4 * 604_800, ["15 Jan", "12 Feb"]),
    ],
)
def test_ticks_are_at_round_times(seconds, step, labels):
    scale = Scale(T0, T0 + timedelta(seconds=seconds))
    found = axis.ticks(scale)
    assert (found[1] - found[0]).total_seconds() == step
    assert 2 <= len(found) <= axis.MOST_TICKS + 1
    assert [axis.label(one, step) for one in found[:2]] == labels


@pytest.mark.parametrize(("second", "place"), [(-5, 0), (0, 0), (25, 25), (100, 100), (900, 100)])
def test_a_scale_keeps_every_time_within_the_drawing(second, place):
    assert Scale(T0, T0 + timedelta(seconds=100)).at(at(second)) == place


def test_a_scale_of_no_time_has_a_width():
    assert Scale(T0, T0).at(T0) == 0


def spent(**seconds: int) -> TimeSpent:
    lost = seconds.pop("lost", 0)
    return TimeSpent({JobPhase(name): value for name, value in seconds.items()}, None, None, lost)


@pytest.mark.parametrize(
    ("time_spent", "expected"),
    [
        (spent(), []),
        (spent(Running=75, Scheduling=25), [("Running", 75, 75.0), ("Scheduling", 25, 25.0)]),
        (
            spent(Running=80, Restart=20, lost=30),
            [("Running", 50, 50.0), ("Lost work", 30, 30.0), ("Restart", 20, 20.0)],
        ),
        (spent(Running=10, Restart=30, lost=99), [("Lost work", 10, 25.0), ("Restart", 30, 75.0)]),
        (TimeSpent({}, JobPhase.QUEUED, T0), [("Queued", 60, 100.0)]),
    ],
)
def test_the_parts_of_the_time_are_all_of_it_and_lost_work_is_a_part_of_running(time_spent, expected):
    found = time_bar.parts(Status(time_spent=time_spent), at(60))
    assert [(one.name, one.seconds, one.share) for one in found] == expected


def test_a_bar_of_time_has_its_parts_one_after_the_other():
    found = ET.fromstring(str(time_bar.draw(Status(time_spent=spent(Running=75, Scheduling=25)), at(0))))
    assert [(one.get("x"), one.get("width")) for one in next(found.iter("svg")).iter("rect")] == [
        ("0.000%", "75.0%"),
        ("75.000%", "25.0%"),
    ]


def a_sample(second: float, at_step: int | None, **metrics: float) -> Sample:
    return Sample(at(second), at_step, None, tuple(metrics.items()))


def test_curves_are_of_steps_and_of_metrics_that_have_two_values():
    found = curves.curves(
        [a_sample(0, 1, loss=2.0, step=1), a_sample(10, 5, loss=1.0, acc=0.5), a_sample(20, None, loss=0.5)]
    )
    assert [(one.name, len(one.points), one.low, one.high) for one in found] == [("step", 2, 1, 5), ("loss", 3, 0.5, 2)]


def test_a_curve_begins_at_the_left_and_its_least_value_is_at_the_bottom():
    found = str(
        curves.draw(
            curves.curves([a_sample(0, None, loss=2.0), a_sample(5, None, loss=1.0), a_sample(10, None, loss=1.5)])[0]
        )
    )
    assert re.findall(r'points="([^"]+)"', found) == ["0.00,2.00 500.00,118.00 1000.00,60.00"]


def test_a_job_of_six_hundred_replicas_draws_hardly_more_than_a_small_one():
    few, many_more = (len(str(timeline.draw(history_of(many(count), 100), "?"))) for count in (20, 599))
    assert many_more < 3 * few


def test_a_well_job_has_no_mark_but_that_of_its_restart():
    play, now = WELL["healthy"]()
    assert [str(one.sign) for one in history_of(play, now).marks] == ["restarted"]


@pytest.mark.parametrize(
    ("values", "shares"),
    [((1, 2, 3), (0, 0.5, 1)), ((-1e308, 0, 1e308), (0, 0.5, 1)), ((0, 5e-324, 5e-324), (0, 0, 0)), ((7, 7), (0, 0))],
)
def test_any_numbers_have_a_place_between_their_least_and_their_greatest(values, shares):
    assert tuple(axis.share(value, min(values), max(values)) for value in values) == shares


def test_a_metric_of_extreme_values_is_drawn_within_its_room():
    samples = [a_sample(second, None, loss=value) for second, value in enumerate((1e308, -1e308, 5e-324, 0.0))]
    (curve,) = curves.curves(samples)
    drawings = (str(curves.draw(curve)), str(sparkline([value for _, value in curve.points], "loss")))
    for text in drawings:
        found = re.search(r'(?:points|d)="([^"]*)"', text)[1]
        assert max(float(number) for number in re.findall(r"[-\d.]+", found)) <= curves.WIDTH
        assert not re.search("nan|inf", found)
