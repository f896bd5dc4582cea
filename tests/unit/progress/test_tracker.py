"""From all lines of a log follow the step, how much is done, and the time that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.builders import at
from trainshed.progress.tracker import MOST_LINES, Tracker


def after(*lines: str, seconds: float = 1.0):
    """The progress after lines that come a second after each other."""
    tracker = Tracker()
    for number, line in enumerate(lines, 1):
        tracker.feed(f"{line}\n".encode(), number * seconds)
    return tracker.progress(len(lines) * seconds)


#: What `kubectl logs --timestamps` prints of Keras 3: fit() of 8 epochs with a line each, whose bar has 20 states; then
#: fit() of 2 epochs with verbose=2 and with a bar, evaluate() and predict().
KERAS = (Path(__file__).parents[2] / "support/recorded/tensorflow-2.21.0-keras.log").read_bytes()
#: Hugging Face: records within the bar of tqdm, which clears it before.
TQDM = (
    "\r 50%|█████     | 3/6 [00:00<00:00,  4.93it/s]\r                    \r{'loss': '0.7', 'epoch': '1.5'}\n"
    "\r 50%|█████     | 3/6 [00:00<00:00,  4.93it/s]\r 67%|██████▋   | 4/6 [00:00<00:00,  4.95it/s]"
    "\r100%|██████████| 6/6 [00:01<00:00,  4.97it/s]\r                                \r{'loss': '0.4', 'epoch': '3'}\n"
    "\r100%|██████████| 6/6 [00:01<00:00,  4.97it/s]\r100%|██████████| 6/6 [00:01<00:00,  4.94it/s]\n"
).encode()


def keras(step: int) -> str:
    return f"{step}/100 ━━━━━━━━━━ 1s 10ms/step - loss: 0.5"


@pytest.mark.parametrize(
    ("lines", "step", "total", "percentage"),
    [
        (("step 10/100 loss 1", "step 20/100 loss 1"), 20, 100, 20),
        (("epoch 2/4 step 9/10 loss 1", "epoch 1/4 step 1/10 loss 1"), 1, 40, 2),
        (("Epoch 1/4", keras(100), "Epoch 2/4", keras(50)), 150, 400, 37),
        (("Epoch 1/4", keras(100), "25/25 ━━━━━━━━━━ 1s 10ms/step - loss: 0.5"), 100, 400, 25),
        (("  Total optimization steps = 1,000", '{"step": 100, "loss": 0.4}'), 100, 1000, 10),
        (("  Num Epochs = 3", "{'loss': '0.1', 'epoch': '1.5'}"), None, None, 50),
        ((" 10%|#| 50/500 [00:01<00:02, 4it/s]", " 50%|#| 5/10 [00:01<00:02, 4it/s]"), 50, 500, 10),
        (("step 90/100 loss 1", "step 10/100 loss 1"), 10, 100, 10),
        (("step 5 loss 1",), 5, None, None),
        (("Epoch 1/4", keras(100), keras(500).replace("/100", "/500"), "Epoch 2/4", keras(50)), 150, 400, 37),
        (("Epoch 2/2", keras(100), "Epoch 1/2", keras(10)), 10, 200, 5),
        (("[epoch 1] batch 100/100 loss 1", "[epoch 3] batch 100/100 loss 1"), 300, None, None),
        (("epoch 0 batch 100/100 loss 1", "epoch 2 batch 100/100 loss 1"), 300, None, None),
        (("Epoch [1/5], Step [100/100], Loss: 1", "Epoch [5/5], Step [100/100], Loss: 1"), 500, 500, 100),
    ],
    ids=[
        *(
            "steps",
            "earlier-epoch",
            "epochs",
            "evaluation",
            "announced",
            "records",
            "other-bar",
            "begun-again",
            "no-end",
        ),
        *("longer-evaluation", "second-fit", "epochs-from-1", "epochs-from-0", "numbers-of-epochs"),
    ],
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
    assert tracker.feed(b"step 99998/100000 loss 1\nstep 99999/100000 loss 1\n", 1.5) == 0, "not more in a second"
    assert tracker.behind
    assert tracker.feed(b"\n", 2.0) == 2, "but in the next one"
    tracker.feed(b"step 100000/100000 loss 1\n" * MOST_LINES, 2.0)
    assert tracker.progress(2.0).step == 100_000, "a report knows all"


@pytest.mark.parametrize("size", [100, 1000, 4096, 100_000])
@pytest.mark.parametrize(
    ("log", "end", "expected"),
    [
        (KERAS, b"Epoch 5/8", (80, 160, 5)),
        (KERAS, b"Epoch 1/2", (160, 160, 8)),
        (KERAS, None, (40, 40, 2)),
        (TQDM, None, (6, 6, 3)),
    ],
    ids=("keras-epoch", "keras-fit", "keras-end", "hugging-face"),
)
def test_all_of_a_log_with_bars_is_read_however_it_is_cut_and_however_soon_it_arrives(log, end, expected, size):
    # The lines up to the one that says `end`, with it if that is of the same training, all of them in one second.
    until = log.index(end) - (31 if expected[0] == expected[1] else -len(end) - 1) if end else len(log)
    tracker = Tracker(20, stamped=True)
    for start in range(0, until, size):
        tracker.feed(log[start : min(start + size, until)], 1.0)
    found = tracker.progress(1.0)
    assert (found.step, found.total, found.printed_epoch) == expected


def test_lines_that_were_read_before_are_skipped_when_a_log_is_opened_again_and_what_was_reported_is_no_news():
    def line(second: int, step: int) -> bytes:
        return f"{at(second).isoformat()} step {step}/100 loss={step}\n".encode()

    tracker = Tracker(stamped=True, known=at(5))
    tracker.feed(line(1, 1) + line(4, 4), 50)
    assert tracker.progress(50) is None, "what an operator that has just started finds"
    tracker.feed(line(10, 10) + line(20, 20) + b"2026-99-99T00:00:00Z step 21/100 loss=21\n" + line(22, 22)[:-4], 51)
    assert (tracker.progress(51).updated, tracker.last_line, tracker.within_line) == (51, at(20), True)
    tracker.reopened(200)
    tracker.feed(line(10, 10) + line(20, 20), 200)
    tracker.feed(line(10, 10) + line(20, 20), 300)
    assert (tracker.progress(300).updated, tracker.progress(300).metrics) == (51, (("loss", "21"),))
    tracker.feed(line(22, 22), 301)
    assert (tracker.progress(301).updated, tracker.progress(301).step) == (301, 22)
    tracker.reopened(400)
    tracker.feed(b"step 20/100 loss=20\nEpoch 2/2 loss 7\nEpoch 1/2 loss 8\n", 401)
    assert (tracker.progress(401).step, tracker.progress(401).epoch) == (22, 1), "also without times"


@pytest.mark.parametrize("epoch", ["1,000", "nan", "inf", "-1", "1e308", "9" * 400])
def test_no_number_is_too_large_to_calculate_with(epoch):
    number = "9" * 400
    after("Num Epochs = 3", f"{{'loss': 1, 'epoch': '{epoch}'}}", f"epoch {epoch}/3 loss 1", keras(1))
    after(*(f"step {step}/{number} loss 1" for step in (1, number)), f"Epoch {number}/{number}", f"[{number}]\ta: 1")
    after(f"1%|#| {number}/{number} [00:01<{number}, 1it/s]", f"iteration {number}/{number} | loss: {number}")


def test_a_program_that_is_started_again_numbers_its_epochs_as_before():
    bar = "Epoch {}:  50%|█████     | 5/10 [00:00<00:00,  4.93it/s, loss=0.5]"
    tracker = Tracker()
    tracker.feed(f"{bar.format(0)}\n{bar.format(3)}\nhalf a line".encode(), 1.0)
    assert tracker.progress(1.0).step == 35
    tracker.restarted()
    tracker.feed(f"{bar.format(2)}\n".encode(), 2.0)
    found = tracker.progress(2.0)
    assert (found.step, found.metrics) == (25, (("loss", "0.5"),))
