"""What is found about one part of a plan, such as a quota, as a sentence with a verdict."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Fit(StrEnum):
    """The verdict about a part: WARNING does not stop the job, UNKNOWN was not looked at."""

    OK = "ok"
    WARNING = "warning"
    LACKING = "does not fit"
    REFUSED = "refused"
    UNKNOWN = "not looked at"


#: The verdicts with which a job does not run, or is not even created.
BAD = (Fit.REFUSED, Fit.LACKING)


class Assessment(msgspec.Struct, frozen=True):
    """The verdict about a part, with a sentence that has the figure that is missing if one is."""

    fit: Fit
    part: str
    message: str
