"""The stacks of ranks in groups, as `trainshed stacks` shows them."""

from __future__ import annotations

import pytest

from trainshed.progress.stack_frames import is_library, is_users, short_path
from trainshed.views import rank_stacks as stacks
from trainshed.views.rank_stacks import Frame, PythonProcess, Rank, Thread

TORCH = "/opt/conda/lib/python3.11/site-packages/torch"
ALL_REDUCE = (
    Frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 2810),
    Frame("wrapper", f"{TORCH}/distributed/c10d_logger.py", 83),
    Frame("train", "/app/train.py", 31),
    Frame("<module>", "/app/train.py", 50),
)
LOADING = (
    Frame("poll", "/opt/conda/lib/python3.11/selectors.py", 415),
    Frame("_try_get_data", f"{TORCH}/utils/data/dataloader.py", 1284),
    Frame("__next__", f"{TORCH}/utils/data/dataloader.py", 732),
    Frame("train", "/app/train.py", 29),
    Frame("<module>", "/app/train.py", 50),
)


def process(pid: int = 1, parent: int = 0, rank: str = "", frames: tuple[Frame, ...] = ALL_REDUCE) -> PythonProcess:
    threads = (Thread("reader", main=False, frames=()), Thread("MainThread", main=True, frames=frames))
    return PythonProcess(pid, parent, rank=rank, local_rank=rank, threads=threads)


def printed(*ranks: Rank) -> str:
    groups = stacks.grouped(ranks)
    return "\n".join((stacks.headline(groups), *stacks.lines(groups, whole=False, option="--whole")))


def test_the_rank_that_does_not_join_a_collective_is_named():
    waiting = [Rank(f"worker-{index}", process()) for index in range(3)]
    assert printed(*waiting, Rank("worker-3", process(frames=LOADING))) == (
        "3 ranks are in all_reduce, worker-3 is in _try_get_data. The others may be waiting for worker-3.\n"
        "3 ranks: worker-0, worker-1, worker-2\n"
        "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n"
        "    wrapper (torch/distributed/c10d_logger.py:83)\n"
        "    train (train.py:31)\n"
        "    <module> (train.py:50)\n"
        "\n"
        "1 rank: worker-3\n"
        "    _try_get_data (torch/utils/data/dataloader.py:1284)\n"
        "    __next__ (torch/utils/data/dataloader.py:732)\n"
        "    train (train.py:29)\n"
        "    <module> (train.py:50)\n"
        "    … 1 more frame (--whole)"
    )


def test_the_headline_about_ranks_that_all_wait_names_no_culprit():
    assert stacks.headline(stacks.grouped([Rank("a", process()), Rank("b", process())])) == "2 ranks are in all_reduce."


def test_names_of_functions_cannot_forge_output():
    evil = (Frame("all_reduce\n1 rank: worker-9\x1b[2J", "/app/t\nrain.py", 1),)
    text = printed(Rank("worker-0", process(frames=evil)))
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("processes", "names"),
    [
        pytest.param([process(7)], ["worker-0"], id="one process"),
        pytest.param([process(1), process(8, 1)], ["worker-0"], id="a process and its loader of data"),
        pytest.param(
            [
                process(1),
                process(8, parent=1, rank="4"),
                process(9, parent=1, rank="5"),
                process(10, parent=9, rank="5"),
            ],
            ["worker-0/rank 4", "worker-0/rank 5"],
            id="torchrun, two ranks, and a loader of data of one",
        ),
        pytest.param([process(7), process(8)], ["worker-0/pid 7", "worker-0/pid 8"], id="two unknown processes"),
        pytest.param([process(7, parent=8), process(8, parent=7)], [], id="parents that cannot be"),
        pytest.param([], [], id="none"),
    ],
)
def test_the_processes_that_train_are_distinguished_from_launchers_and_loaders(processes, names):
    assert [rank.name for rank in stacks.ranks_of("worker-0", processes)] == names


@pytest.mark.parametrize(
    ("path", "short", "whose"),
    [
        ("/usr/lib/python3.12/multiprocessing/connection.py", "multiprocessing/connection.py", "Python's"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>", "Python's"),
        ("/venv/lib/python3.12/site-packages/jax/api.py", "jax/api.py", "a package's"),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", "yaml/loader.py", "a package's"),
        ("/srv/python3/train.py", "train.py", "the user's"),
        ("train.py", "train.py", "the user's"),
    ],
)
def test_files_are_known_by_their_folders(path, short, whose):
    found = "Python's" if is_library(path) else "the user's" if is_users(path) else "a package's"
    assert (short_path(path), found) == (short, whose)
