"""Settings that the tests of every folder need, and the API server that tests of several folders share."""

import signal

from support.fixtures import second_server

__all__ = ["second_server"]


def pytest_configure() -> None:
    """Have programs that tests start obey Ctrl-C, also below a shell that ignores it.

    A shell without job control starts `make test &` with SIGINT ignored, and programs inherit that. A signal that has
    a handler, as SIGINT has now, is at its default in a program that is started (POSIX, `exec`).
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
