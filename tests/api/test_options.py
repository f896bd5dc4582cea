"""What only some kinds let users choose."""

from __future__ import annotations

import pytest

from rig.jobs import pytorchjob
from trainshed.api import read
from trainshed.api.site import Site
from trainshed.frameworks.pytorch import PYTORCH


def pytorch(document):
    return read.job(document, PYTORCH, Site())


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        ({}, (2, 2)),
        ({"minReplicas": 1}, (1, 1)),
        ({"maxReplicas": 3}, (3, 3)),
        ({"minReplicas": 1, "maxReplicas": 3}, (1, 3)),
    ],
)
def test_elastic_bounds_fill_each_other_in(policy, bounds):
    document = pytorchjob("a", Worker=2)
    document["spec"]["elasticPolicy"] = policy
    elastic = pytorch(document).options.elastic
    assert (elastic.minimum, elastic.maximum) == bounds


def test_processes_per_node_are_automatic_unless_either_field_says_otherwise():
    document = pytorchjob("a", Worker=2)
    assert pytorch(document).options.nproc_per_node == "auto"
    document["spec"]["elasticPolicy"] = {"nProcPerNode": 2, "rdzvConf": [{"key": "a", "value": "b"}]}
    options = pytorch(document).options
    assert (options.nproc_per_node, options.elastic.nproc_per_node) == (None, 2)
    assert options.elastic.rdzv_conf == (("a", "b"),)
    document["spec"] = document["spec"] | {"nprocPerNode": "4", "elasticPolicy": {}}
    assert pytorch(document).options.nproc_per_node == "4"
