"""A namespace's counters are shown from its first job on, and for a while after its last."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from trainshed.loop.counters import COUNTERS, Counters, Home

ML, AI = Home("ml", "tensorflow"), Home("ai", "tensorflow")


class Scene:
    """Counters, and what a scrape would show of them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counters = Counters(self.registry)

    def value(self, home: Home, name: str) -> float | None:
        labels = {"job_namespace": home.namespace, "framework": home.framework}
        return self.registry.get_sample_value(f"{name}_total", labels)

    def shown(self) -> list[Home]:
        """Those of whom all is shown; of nobody there is only a part."""
        found = [home for home in (ML, AI) if f'="{home.namespace}"'.encode() in generate_latest(self.registry)]
        assert all(self.value(home, name) is not None for home in found for name in COUNTERS)
        return found


def test_with_the_first_that_happens_or_may_all_of_a_home_are_shown():
    scene = Scene()
    assert scene.shown() == []
    scene.counters.count(ML, "failed_pods", 0)
    assert [scene.value(ML, name) for name in COUNTERS] == [0] * len(COUNTERS)
    scene.counters.count(ML, "failed_pods", 2)
    scene.counters.count(ML, "failed_pods")
    assert scene.value(ML, "failed_pods") == 3


def test_who_has_jobs_is_shown_and_who_has_none_is_until_the_next_time():
    scene = Scene()
    scene.counters.count(ML, "created_pods")
    scene.counters.count(AI, "created_pods")
    scene.counters.forget({ML, AI})
    scene.counters.forget({ML})
    assert scene.shown() == [ML, AI]
    scene.counters.forget({ML})
    assert scene.shown() == [ML]
    assert scene.value(ML, "created_pods") == 1


def test_jobs_that_come_and_go_between_two_times_keep_a_home():
    scene = Scene()
    scene.counters.count(ML, "created_pods")
    scene.counters.forget(set())
    scene.counters.count(ML, "created_pods", 0)
    scene.counters.forget(set())
    assert scene.shown() == [ML]
    scene.counters.forget(set())
    assert scene.shown() == []


def test_who_comes_again_begins_anew():
    scene = Scene()
    scene.counters.count(ML, "created_pods", 7)
    scene.counters.forget(set())
    scene.counters.forget(set())
    scene.counters.count(ML, "created_pods")
    assert scene.value(ML, "created_pods") == 1
