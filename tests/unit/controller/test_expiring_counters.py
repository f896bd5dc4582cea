"""The counters of a namespace are served from its first job until some time after its last."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from trainshed.controller.metrics import COUNTERS, ExpiringCounters, MetricScope

ML, AI = MetricScope("ml", "tensorflow"), MetricScope("ai", "tensorflow")


class Scene:
    """Counters and what a scrape returns of them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counters = ExpiringCounters()
        self.registry.register(self.counters)

    def value(self, scope: MetricScope, name: str) -> float | None:
        labels = {"job_namespace": scope.namespace, "framework": scope.framework}
        return self.registry.get_sample_value(f"{name}_total", labels)

    def shown(self) -> list[MetricScope]:
        """Return the scopes with counters; each one has all of them."""
        found = [scope for scope in (ML, AI) if f'="{scope.namespace}"'.encode() in generate_latest(self.registry)]
        assert all(self.value(scope, name) is not None for scope in found for name in COUNTERS)
        return found


def test_the_first_count_creates_all_counters_of_a_namespace():
    scene = Scene()
    assert scene.shown() == []
    scene.counters.count(ML, "failed_pods", 0)
    assert [scene.value(ML, name) for name in COUNTERS] == [0] * len(COUNTERS)
    scene.counters.count(ML, "failed_pods", 2)
    scene.counters.count(ML, "failed_pods")
    assert scene.value(ML, "failed_pods") == 3


def test_counters_without_jobs_are_removed_at_the_second_call():
    scene = Scene()
    scene.counters.count(ML, "created_pods")
    scene.counters.count(AI, "created_pods")
    scene.counters.expire({ML, AI})
    scene.counters.expire({ML})
    assert scene.shown() == [ML, AI]
    scene.counters.expire({ML})
    assert scene.shown() == [ML]
    assert scene.value(ML, "created_pods") == 1


def test_counts_between_two_calls_keep_the_counters():
    scene = Scene()
    scene.counters.count(ML, "created_pods")
    scene.counters.expire(set())
    scene.counters.count(ML, "created_pods", 0)
    scene.counters.expire(set())
    assert scene.shown() == [ML]
    scene.counters.expire(set())
    assert scene.shown() == []


def test_removed_counters_restart_at_zero():
    scene = Scene()
    scene.counters.count(ML, "created_pods", 7)
    scene.counters.expire(set())
    scene.counters.expire(set())
    scene.counters.count(ML, "created_pods")
    assert scene.value(ML, "created_pods") == 1
