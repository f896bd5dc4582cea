"""Local runs refuse the names, keys and paths that the API server refuses, and accept those that it accepts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.pod_names import ACCEPTED, REFUSED, REFUSED_OBJECTS, TEXTS, an_object, pods
from support.user_client import UserClient
from trainshed.local.pod_validation import problems

#: The random pods and objects that are tried.
PODS, OBJECTS = 400, 200
#: Labels and annotations.
TEXTED = st.fixed_dictionaries(
    {}, optional={part: st.dictionaries(TEXTS, TEXTS, max_size=1) for part in ("labels", "annotations")}
)
CORE = "/api/v1/namespaces/default/"
RESOURCES = {"ConfigMap": "configmaps", "Secret": "secrets", "PersistentVolumeClaim": "persistentvolumeclaims"}


@pytest.mark.parametrize(("body", "problem"), REFUSED, ids=[case[1][-60:] for case in REFUSED])
def test_the_api_server_says_the_same_of_a_pod(user, body, problem):
    assert problem in user.refusal(CORE + "pods", body)


@pytest.mark.parametrize("body", ACCEPTED)
def test_the_api_server_accepts_the_same_pods(user, body):
    assert user.refusal(CORE + "pods", body) == ""


@pytest.mark.parametrize(("kind", "parts", "problem"), REFUSED_OBJECTS)
def test_the_api_server_says_the_same_of_an_object(user, kind, parts, problem):
    assert problem in user.refusal(CORE + RESOURCES[kind], an_object(kind, parts))


def test_random_pods_are_accepted_and_refused_as_by_the_api_server(server):
    user = UserClient(server.kubeconfig, "default")
    seen = {True: 0, False: 0}

    @settings(max_examples=PODS, deadline=None, derandomize=True, database=None)
    @given(pods())
    def compare(body: dict) -> None:
        refused, found = user.refusal(CORE + "pods", body), problems((), [body])
        seen[bool(refused)] += 1
        assert bool(refused) == bool(found), (refused, found)

    compare()
    assert min(seen.values()) > PODS / 20, seen


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_random_objects_are_accepted_and_refused_as_by_the_api_server(server, kind):
    user = UserClient(server.kubeconfig, "default")
    fields = ("data", "binaryData") if kind == "ConfigMap" else ("stringData", "data")
    values = st.fixed_dictionaries(
        {}, optional={field: st.dictionaries(TEXTS, st.sampled_from(["", "YQ=="]), max_size=2) for field in fields}
    )

    @settings(max_examples=OBJECTS, deadline=None, derandomize=True, database=None)
    @given(values, st.just("c") | TEXTS, TEXTED)
    def compare(parts: dict, name: str, texts: dict) -> None:
        body = an_object(kind, {**parts, "metadata": {"name": name, "namespace": "default", **texts}})
        refused, found = user.refusal(CORE + RESOURCES[kind], body), problems([body], ())
        assert bool(refused) == bool(found), (refused, found)

    compare()
