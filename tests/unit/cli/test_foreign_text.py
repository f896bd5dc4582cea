"""What a cluster or a file says reaches the terminal of no command as a control sequence, nor as a line of its own."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from support.cluster_objects import ENTITLED, deployment
from support.jobs import pytorchjob
from support.listed_cluster import Objects, listed_cluster
from trainshed.api.foreign_text import json_escaped
from trainshed.cli import cli

FORGED = "Cluster ok"
#: Clears the screen, names the window, colours in the 8-bit form, turns the direction twice, and begins a line.
HOSTILE = f"h\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt\u2066\u2028{FORGED}\r{FORGED}\n{FORGED}\n"


def shown(*words: object) -> str:
    """What a command prints on a terminal: click takes some of the sequences away elsewhere."""
    result = CliRunner().invoke(cli, list(map(str, words)), color=True)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


def is_harmless(text: str) -> bool:
    lines = text.split("\n")
    return all(map(str.isprintable, lines)) and FORGED not in lines


def a_pod(**metadata: str) -> dict:
    finalizers = ["trainshed.dev/job-tracking"]
    labels = {"training.kubeflow.org/job-name": "a"}
    return {
        "metadata": {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
        | metadata
        | {"labels": labels, "finalizers": finalizers}
    }


def flags(*words: str) -> Objects:
    return {"deployments": [deployment(args=list(words))], "clusterrolebindings": [ENTITLED]}


CLUSTERS: dict[str, tuple[str, Objects]] = {
    "unknown flag": ("migrate --dry-run", flags(f"--{HOSTILE}")),
    "value": ("migrate --dry-run", flags(f"--namespace={HOSTILE}")),
    "file": ("migrate --dry-run", flags(f"--pytorch-init-container-template-file={HOSTILE}")),
    "image": (
        "migrate --dry-run",
        {"deployments": [deployment(f"training-operator:{HOSTILE}")], "clusterrolebindings": [ENTITLED]},
    ),
    "tenant": ("migrate --dry-run", {"deployments": [deployment(name=HOSTILE)]}),
    "refusal": ("migrate --dry-run", {"deployments": None}),
    "policy": ("migrate --dry-run", {"pytorchjobs": [pytorchjob("a", policy={"cleanPodPolicy": HOSTILE}, Master=1)]}),
    "pod": ("remove-finalizers --include-active-jobs", {"pods": [a_pod(name=HOSTILE, namespace=HOSTILE)]}),
    "pods": ("remove-finalizers", {"pods": None}),
}


@pytest.mark.parametrize(("command", "objects"), CLUSTERS.values(), ids=CLUSTERS)
def test_no_text_of_a_cluster_acts_on_a_terminal(tmp_path, command, objects):
    with listed_cluster(tmp_path, objects, HOSTILE) as kubeconfig:
        text = shown(*command.split(), "--kubeconfig", kubeconfig)
    assert "txt" in text, "it is quoted"
    assert is_harmless(text), ascii(text)


KUBECONFIGS = {
    "field": {"users": [{"name": "c", "user": {HOSTILE: "x"}}]},
    "server": {"clusters": [{"name": "c", "cluster": {"server": HOSTILE}}]},
    "context": {"current-context": HOSTILE},
    "file": {"users": [{"name": "c", "user": {"tokenFile": HOSTILE}}]},
    "ca": {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": HOSTILE}}]},
    "plugin": {
        "users": [
            {"name": "c", "user": {"exec": {"command": HOSTILE, "apiVersion": "client.authentication.k8s.io/v1"}}}
        ]
    },
}


@pytest.mark.parametrize("command", ["migrate --dry-run", "remove-finalizers"])
@pytest.mark.parametrize("part", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_no_text_of_a_kubeconfig_acts_on_a_terminal(tmp_path, command, part):
    with listed_cluster(tmp_path, {}) as kubeconfig:
        kubeconfig.write_text(yaml.safe_dump(yaml.safe_load(kubeconfig.read_text()) | part))
        text = shown(*command.split(), "--kubeconfig", kubeconfig)
    assert is_harmless(text), ascii(text)


def job_with(**parts: object) -> dict:
    job = pytorchjob("a", Master=1)
    return job | {key: {**job[key], **value} if isinstance(value, dict) else value for key, value in parts.items()}


def a_template(**container: object) -> dict:
    job = pytorchjob("a", Master=1)
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0] |= container
    return job


FILES: dict[str, list[dict]] = {
    "name": [job_with(metadata={"name": HOSTILE})],
    "namespace": [job_with(metadata={"namespace": HOSTILE})],
    "kind": [job_with(kind=HOSTILE)],
    "other": [job_with(), {"apiVersion": HOSTILE, "kind": HOSTILE, "metadata": {"name": HOSTILE}}],
    "field": [job_with(spec={HOSTILE: HOSTILE})],
    "policy": [job_with(spec={"runPolicy": {"cleanPodPolicy": HOSTILE}})],
    "role": [job_with(spec={"pytorchReplicaSpecs": {HOSTILE: {}}})],
    "command": [a_template(command=[HOSTILE])],
    "image": [a_template(image=HOSTILE)],
    "variable": [a_template(env=[{"name": HOSTILE, "value": HOSTILE}])],
    "key": [job_with(metadata={"annotations": {"a": HOSTILE}}), a_template(resources={"limits": {HOSTILE: "1"}})],
}


@pytest.mark.parametrize("command", ["render", "run --runtime=processes --only=none"])
@pytest.mark.parametrize("documents", FILES.values(), ids=FILES)
def test_no_text_of_a_file_acts_on_a_terminal(tmp_path, command, documents):
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    assert is_harmless(text := shown(*command.split(), "-f", file)), ascii(text)


@pytest.mark.parametrize("command", ["render", "run"])
def test_no_name_of_a_file_acts_on_a_terminal(tmp_path, command):
    for name in (HOSTILE, str(tmp_path / HOSTILE), f"http://{HOSTILE}", f"https://127.0.0.1:1/{HOSTILE}"):
        assert is_harmless(text := shown(command, "-f", name)), ascii(text)
    folder = tmp_path / HOSTILE
    folder.mkdir()
    assert is_harmless(text := shown(command, "-f", folder)), ascii(text)
    (folder / "a.yaml").write_text("a: [")
    assert is_harmless(text := shown(command, "-f", folder)), ascii(text)


CHARACTERS = "\x1b[31m\u009b31m\u009d0;title\u009c\x7f\u202e\u2028\u200b\U000e0001é😀"


def test_json_has_no_character_that_acts_on_a_terminal_and_means_the_same():
    text = json_escaped(json.dumps({"note": CHARACTERS}, indent=4, ensure_ascii=False))
    assert all(map(str.isprintable, text.split("\n")))
    assert json.loads(text) == {"note": CHARACTERS}
    assert "é😀" in text
