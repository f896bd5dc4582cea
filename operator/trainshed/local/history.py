"""Keeps what happened in a run, for reports: nothing of it is there any more when the run has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from trainshed.api.run_history import MOST_PODS, LastPod, RunHistory

from .stored_objects import POD, Stored

#: The most reports of a job that are kept: when there are more, every second one is dropped.
MOST_REPORTS = 512


class HistoryKeeper:
    """Gets each change in the cluster of a run; `kinds` are those of its jobs."""

    def __init__(self, kinds: Iterable[str], now: Callable[[], datetime]) -> None:
        self._kinds, self._now = frozenset(kinds), now
        self._pods = dict[str, LastPod]()
        self._reports = dict[str, list[Stored]]()

    def on_change(self, kind: str, before: Stored | None, after: Stored | None) -> None:
        """Keep a pod, or what a training has reported."""
        if kind == POD and (known := after or before):
            self._pods[known["metadata"]["uid"]] = LastPod(known, None if after else self._now())
            if len(self._pods) > MOST_PODS:
                del self._pods[next(iter(self._pods))]
        if kind in self._kinds and after and (report := (after.get("status") or {}).get("trainerStatus")):
            kept = self._reports.setdefault(after["metadata"]["uid"], [])
            if not kept or kept[-1] != report:
                kept.append(report)
                if len(kept) > MOST_REPORTS:
                    del kept[:-1:2]

    def history(self, jobs: Iterable[Stored], events: Iterable[Stored]) -> RunHistory:
        """Return what is known, with the jobs and Events as they are now."""
        reports = {uid: tuple(found) for uid, found in self._reports.items()}
        return RunHistory(self._now(), tuple(jobs), tuple(self._pods.values()), tuple(events), reports)
