"""From all lines of a log follow the step, how much is done, and the time that is left."""

from __future__ import annotations

import pytest

from trainshed.progress.tracker import MOST_LINES, Tracker


def after(*lines: str, seconds: float = 1.0):
    """The progress after lines that come a second after each other."""
    tracker = Tracker()
    for number, line in enumerate(lines, 1):
        tracker.feed(f"{line}\n".encode(), number * seconds)
    return tracker.progress(len(lines) * seconds)


def keras(step: int) -> str:
    return f"{step}/100 ━━━━━━━━━━ 1s 10ms/step - loss: 0.5"


@pytest.mark.parametrize(
    ("lines", "step", "total", "percentage"),
    [
        (("step 10/100 loss 1", "step 20/100 loss 1"), 20, 100, 20),
        (("Epoch 1/4", keras(100), "Epoch 2/4", keras(50)), 150, 400, 37),
        (("Epoch 1/4", keras(100), "25/25 ━━━━━━━━━━ 1s 10ms/step - loss: 0.5"), 100, 400, 25),
        (("  Total optimization steps = 1,000", '{"step": 100, "loss": 0.4}'), 100, 1000, 10),
        (("  Num Epochs = 3", "{'loss': '0.1', 'epoch': '1.5'}"), None, None, 50),
        ((" 10%|#| 50/500 [00:01<00:02, 4it/s]", " 50%|#| 5/10 [00:01<00:02, 4it/s]"), 50, 500, 10),
        (("step 90/100 loss 1", "step 10/100 loss 1"), 10, 100, 10),
        (("step 5 loss 1",), 5, None, None),
    ],
    ids=["steps", "epochs", "evaluation", "announced", "records", "other-bar", "begun-again", "no-end"],
)
def test_how_much_is_done(lines, step, total, percentage):
    progress = after(*lines)
    assert (progress.step, progress.total, progress.percentage) == (step, total, percentage)


def test_the_time_that_is_left_follows_from_the_steps():
    progress = after("step 10/100 loss 0.5", "step 20/100 loss 0.4", "step 30/100 loss 0.3", seconds=5)
    assert (progress.steps_per_second, progress.remaining, progress.metrics) == (2.0, 35.0, (("loss", "0.3"),))


def test_a_log_that_says_nothing_has_no_progress():
    assert after("hello", "world 3") is None


def test_parts_of_lines_and_states_of_bars_are_put_together():
    tracker = Tracker()
    for chunk in (b"ste", b"p 1/10 loss ", b"0.5\rstep 2/10 loss 0.4\rstep 3", b"/10 loss 0.3"):
        tracker.feed(chunk, 1.0)
    assert tracker.progress(1.0).step == 2
    tracker.feed(b"\n", 1.0)
    assert tracker.progress(1.0).step == 3


def test_of_very_many_lines_the_last_are_read():
    tracker = Tracker()
    tracker.feed(b"".join(b"step %d/100000 loss 1\n" % number for number in range(MOST_LINES * 3)), 1.0)
    assert tracker.progress(1.0).step == MOST_LINES * 3 - 1
    tracker.feed(b"step 99999/100000 loss 1\n", 1.5)
    assert tracker.progress(1.5).step == MOST_LINES * 3 - 1, "not more in a second"


@pytest.mark.parametrize("epoch", ["1,000", "nan", "inf", "-1", "1e308", "9" * 400])
def test_no_number_is_too_large_to_calculate_with(epoch):
    number = "9" * 400
    after("Num Epochs = 3", f"{{'loss': 1, 'epoch': '{epoch}'}}", f"epoch {epoch}/3 loss 1", keras(1))
    after(*(f"step {step}/{number} loss 1" for step in (1, number)), f"Epoch {number}/{number}", f"[{number}]\ta: 1")
    after(f"1%|#| {number}/{number} [00:01<{number}, 1it/s]", f"iteration {number}/{number} | loss: {number}")
