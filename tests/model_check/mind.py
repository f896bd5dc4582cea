"""What an operator knows and is about to do, in words that do not depend on how that came about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.api.objects import is_older

from .words import Names


def mind(operator: Any, names: Names, current: Mapping[str, str], now: float) -> Iterator[str]:
    """All that an operator may decide by at `now` by its loop's clock; `current` are the server's versions by uid."""
    district, queue = operator._caches.all[""], operator._queue
    view = district.cache
    for store in (*view.jobs.values(), view.pods.store, view.services.store):
        yield from sorted(names.item(item, current.get(item.uid, "")) for item in store.items.values())
        yield names.plain(repr(sorted(uid for uid, until in store._past.items() if until is not None)))
    latest, horizon = view.pods.store.latest, view._staleness
    yield repr([is_older(latest, last or before) for before, last in horizon._written.values()])
    yield repr((len(horizon._doubtful), [informer.synced.is_set() for informer in operator._informers]))
    yield repr((sorted(queue._since), sorted(queue._held), sorted(queue._again), sorted(queue._failures.items())))
    yield repr(sorted((key, names.span(timer.when() - now)) for key, timer in queue._later.items()))
    yield names.plain(repr(view._troubles))
    for unstored in district.reconciler._debounce._unstored.values():
        yield f"{names.age(unstored.since)} {unstored.content}"
    yield from (names.age(time) for time in district.reconciler._debounce._not_before.values())
    for look in operator._worker._looks:
        yield from _place(look.get_coro(), names)


def _place(coroutine: Any, names: Names) -> Iterator[str]:
    """Where a look has got to, and what it has decided."""
    while frame := getattr(coroutine, "cr_frame", None):
        yield f"{frame.f_code.co_name} {frame.f_lineno}"
        decision = frame.f_locals.get("decision")
        if decision is not None and hasattr(decision, "actions"):
            yield repr([(type(action).__name__, getattr(action, "name", "")) for action in decision.actions])
            yield names.age(decision.requeue_at) if decision.requeue_at else ""
        coroutine = coroutine.cr_await
