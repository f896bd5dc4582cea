"""The limit of the kernel for an environment variable."""

from __future__ import annotations

import subprocess

import pytest

from support.builders import a_job
from trainshed.api.validation import MAX_VARIABLE_BYTES, list_length, variable_too_long


def test_the_limit_is_that_of_this_kernel():
    fits = "x" * (MAX_VARIABLE_BYTES - len("NAME=") - 1)
    assert subprocess.run(["true"], env={"NAME": fits}, check=False).returncode == 0
    assert variable_too_long(a_job(worker=2), "tfReplicaSpecs", "NAME", len(fits)) == ()
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true"], env={"NAME": fits + "x"}, check=False)


def test_a_longer_variable_is_named_with_the_figures():
    (problem,) = variable_too_long(a_job(worker=2), "tfReplicaSpecs", "NAME", MAX_VARIABLE_BYTES - len("NAME="))
    assert problem.startswith("spec.tfReplicaSpecs: Invalid value: NAME for 2 replicas takes 131073 bytes")


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 11, 99, 100, 101, 12_345])
def test_the_length_of_a_list_is_known_without_making_it(count):
    assert list_length("worker-0", count) == len(",".join(f"worker-{index}" for index in range(count)))
