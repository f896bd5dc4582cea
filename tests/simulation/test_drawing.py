"""Schedules are data: the same for the same seed, of every word, and literal when printed."""

from __future__ import annotations

from random import Random

from simulation import orders
from simulation.drawing import ANSWERING, FAMILIES, LEADERSHIP, LONGEST, VANDALS, draw
from simulation.orders import Order
from simulation.schedule import Schedule, Step, literal
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import FRAMEWORKS

KNOWN = {framework.kind: framework for framework in FRAMEWORKS}


def test_the_same_seed_draws_the_same_schedule_and_another_another():
    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(50)}) == 50


def test_every_word_of_every_family_is_drawn_sooner_or_later():
    said = {step.what for seed in range(400) for step in draw(seed).steps}
    words = {word for family in (*(family for family, _ in FAMILIES), LEADERSHIP) for word in family}
    assert words - {"set some"} <= said
    assert said <= words | {"create"}


def test_a_schedule_knows_some_families_and_not_others():
    drawn = [{step.what for step in draw(seed).steps} for seed in range(200)]
    for family in (ANSWERING, VANDALS):
        with_it = sum(1 for said in drawn if said & family.keys())
        assert 20 < with_it < 180


def test_a_schedule_is_short():
    assert max(len(draw(seed).steps) for seed in range(300)) <= LONGEST


def test_what_is_printed_is_the_schedule():
    for seed in range(30):
        schedule = draw(seed)
        assert eval(literal(schedule), {"Schedule": Schedule, "Step": Step, "Order": Order}) == schedule


def test_the_jobs_that_are_drawn_are_of_every_kind_and_sound():
    drawn = [orders.order(Random(seed), "a") for seed in range(200)]
    assert {wanted.kind for wanted in drawn} == KNOWN.keys()
    for wanted in drawn:
        document = wanted.document()
        document["metadata"] |= {"uid": "x", "resourceVersion": "1"}
        job = parse.job(document, KNOWN[wanted.kind], JobDefaults())
        assert job.problems == (), wanted
        assert 0 < job.size <= 10


def test_what_is_changed_is_a_field_of_the_crd():
    wanted = Order("TFJob", "a", (("Chief", 1), ("Worker", 2)))
    drawn = {orders.setting(Random(seed), wanted) for seed in range(300)}
    assert {path for path, _ in drawn} >= {path for path, _ in orders.fields("TFJob")}
    assert ("tfReplicaSpecs.Worker.replicas", 0) in drawn
    assert orders.patch("runPolicy.suspend", wanted=True) == {"spec": {"runPolicy": {"suspend": True}}}
