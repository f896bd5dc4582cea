"""What the planner decided and why: kept as it saw it, planned again, and put into sentences."""

from __future__ import annotations

#: What becomes of decisions that are to be recorded: stored; too many or too large; refused by the API server. Here, as
#: the metrics name them also of an operator that records none, which imports no more of this package.
KEPT, MISSED, REFUSED = RESULTS = ("Kept", "Missed", "Refused")
