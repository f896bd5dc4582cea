"""A limit of the Linux kernel: exec fails if an environment variable is too long."""

from __future__ import annotations

from .job import Job

#: The longest variable in bytes, including its name and the closing zero (MAX_ARG_STRLEN of Linux).
LONGEST_VARIABLE = 128 * 1024


def list_length(first: str, count: int) -> int:
    """Return the length of a comma-separated list of `count` items: `first`, with index 0, and those that follow.

    The text itself is not built, because for 100,000 replicas it takes megabytes.
    """
    more_digits: int = sum(count - 10**digits for digits in range(1, len(str(count))))
    return count * len(first) + more_digits + max(count - 1, 0)


def too_long(job: Job, field: str, name: str, length: int) -> tuple[str, ...]:
    """Return the problem of a job that needs a variable `name` with a value of `length` bytes, if that is too long."""
    whole = len(name) + len("=") + length + 1
    if whole <= LONGEST_VARIABLE:
        return ()
    problem = (
        f"spec.{field}: Invalid value: {name} for {job.size} replicas takes {whole} bytes, and Linux starts no process"
        f" with a variable of more than {LONGEST_VARIABLE}: ask for fewer replicas, or give the job or its namespace a"
        " shorter name"
    )
    return (problem,)
