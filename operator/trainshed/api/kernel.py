"""What the kernel of a node allows: no process starts with a variable that is too long."""

from __future__ import annotations

from .job import Job

#: So many bytes at the most, its name and its closing zero counted (MAX_ARG_STRLEN of Linux).
LONGEST_VARIABLE = 128 * 1024


def list_length(first: str, count: int) -> int:
    """The length of `count` items with commas between them that differ from `first` by their number, which is 0 there.

    The text itself is not made: for 100,000 replicas it takes megabytes.
    """
    more_digits: int = sum(count - 10**digits for digits in range(1, len(str(count))))
    return count * len(first) + more_digits + max(count - 1, 0)


def too_long(job: Job, field: str, name: str, length: int) -> tuple[str, ...]:
    """What is wrong with a job whose replicas (`field`) need a variable of that name with so many bytes, if it is."""
    whole = len(name) + len("=") + length + 1
    if whole <= LONGEST_VARIABLE:
        return ()
    problem = (
        f"spec.{field}: Invalid value: {name} for {job.size} replicas takes {whole} bytes, and Linux starts no process"
        f" with a variable of more than {LONGEST_VARIABLE}: ask for fewer replicas, or give the job or its namespace a"
        " shorter name"
    )
    return (problem,)
