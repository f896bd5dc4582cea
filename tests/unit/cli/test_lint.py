"""`trainshed lint` says what the API server refuses, and what a careful colleague would say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from docs.how_to import FOLDER, jobs
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.cli import cli
from trainshed.frameworks import ALL_VERSIONS
from trainshed.lint import DISABLE, RULES, Finding, findings
from trainshed.manifests import writer

ROOT = Path(__file__).parents[3]
GPU, MEMORY = {"nvidia.com/gpu": 8}, {"memory": "64Gi"}
SHM, VOLUME = {"name": "shm", "mountPath": "/dev/shm"}, {"name": "shm", "emptyDir": {"medium": "Memory"}}
FIELDS = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs", "TFJob": "tfReplicaSpecs"}
ROLES = {"PyTorchJob": ("Master", "Worker"), "MPIJob": ("Launcher", "Worker"), "TFJob": ("PS", "Worker")}


def a_job(kind="PyTorchJob", *, without=(), workers=2, metadata=None, **parts: dict) -> dict:
    """A careful job of pods with GPUs, with other fields in its spec, in its roles, pods and containers."""
    image = {"name": {"TFJob": "tensorflow"}.get(kind, "pytorch"), "image": "registry.test:5000/train:1"}
    container = {**image, "resources": {"limits": GPU | MEMORY}, "volumeMounts": [SHM]} | parts.get("container", {})
    pod = {"containers": [container], "terminationGracePeriodSeconds": 120, "volumes": [VOLUME]} | parts.get("pod", {})
    template = {"metadata": metadata or {}, "spec": pod}
    roles = {
        role: {"replicas": workers if role == "Worker" else 1, "restartPolicy": "ExitCode", "template": template}
        | parts.get("role", {})
        for role in ROLES[kind]
        if role not in without
    }
    if kind == "MPIJob":  # its launcher has no use for GPUs
        plain = {**container, "resources": {"limits": MEMORY}}
        template = {"spec": {"containers": [plain], "volumes": [VOLUME]}}
        roles["Launcher"] = {**roles["Launcher"], "template": template}
        roles["Worker"]["restartPolicy"] = "OnFailure"
    spec = {"runPolicy": {"backoffLimit": 3, "cleanPodPolicy": "Running"}, FIELDS[kind]: roles} | parts.get("job", {})
    head = {"name": "mnist", "annotations": parts.get("annotations", {})}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": head, "spec": spec}


def a_container(**fields: object) -> dict:
    return {"container": fields}


def words(text: str) -> dict:
    return a_container(command=text.split())


def env(**values: str) -> dict:
    return a_container(env=[{"name": name, "value": value} for name, value in values.items()])


def elastic(**policy: object) -> dict:
    return {"without": ["Master"], "job": {"elasticPolicy": policy}}


def lint(job: dict, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["lint", "-f", "-", *arguments], input=writer.write([job]))


def said(job: dict, *disabled: str) -> list[Finding]:
    """What the rules say, without the command."""
    framework = ALL_VERSIONS[job["apiVersion"], job["kind"]]
    parsed = parse.job(job, framework, JobDefaults())
    assert parsed.problems == ()
    return findings(job, parsed, framework, disabled)


def found(job: dict, *arguments: str) -> list[dict]:
    return json.loads(lint(job, "-o", "json", *arguments).stdout)


POLICY, HOST = {"cleanPodPolicy": "Running"}, {"name": "data", "hostPath": {"path": "/data"}}
WRONG = [
    ("no-memory-limit", a_container(resources={"limits": GPU}), "[Master,Worker].template.spec.containers[pytorch]."),
    ("floating-tag", a_container(image="registry.test:5000/train"), "has no tag"),
    ("floating-tag", a_container(image="train:latest"), "train:latest may be another image"),
    (
        "gpus-without-equal-limit",
        a_container(resources={"requests": GPU, "limits": MEMORY}),
        "limits[nvidia.com/gpu] is not",
    ),
    ("gloo-on-gpus", words("python train.py --backend=gloo"), "command names the backend gloo"),
    ("gloo-on-gpus", env(BACKEND="gloo"), "env[BACKEND] names"),
    ("small-shared-memory", a_container(volumeMounts=[]), "has nothing at /dev/shm"),
    ("command-is-one-text", a_container(command=["python train.py"]), "command[0] has spaces"),
    ("shell-drops-words", words("/bin/bash -lc python train.py"), "runs 'python' alone"),
    ("secret-in-environment", env(WANDB_API_KEY="0123456789abcdef"), "env[WANDB_API_KEY] seems to be a secret"),
    ("secret-in-environment", words(f"train --auth hf_{'x' * 30}"), "command seems to have a secret"),
    ("variable-overridden", env(WORLD_SIZE="24"), "env[WORLD_SIZE] has no effect"),
    ("fixed-rendezvous", words("torchrun --node_rank=0 train.py"), "has --node-rank 0 for all"),
    (
        "fixed-rendezvous",
        a_container(command=["sh", "-c", "torchrun --standalone train.py"]),
        "has --standalone for all",
    ),
    ("node-restarts-alone", words("torchrun --max-restarts 3 train.py"), "(--max-restarts 3)"),
    (
        "endless-restarts",
        {"role": {"restartPolicy": "OnFailure"}, "job": {"runPolicy": POLICY}},
        "is OnFailure without",
    ),
    ("never-succeeds", {"role": {"restartPolicy": "Always"}}, "[Master].restartPolicy is Always"),
    ("short-grace", {"pod": {"terminationGracePeriodSeconds": None}}, "is 30 s, the default"),
    ("gpus-stay-taken", {"job": {"runPolicy": {"backoffLimit": 3}}}, "cleanPodPolicy is None"),
    ("gpus-without-use", {"kind": "TFJob"}, "[PS].template.spec.containers gets 8 GPUs"),
    ("more-processes-than-gpus", {"job": {"nprocPerNode": "16"}}, "is 16, and a pod gets 8"),
    ("more-processes-than-gpus", {"kind": "MPIJob", "job": {"slotsPerWorker": 9}}, "is 9, and a pod gets 8"),
    ("fixed-elastic", elastic(minReplicas=2, maxReplicas=2), "neither shrink nor grow"),
    ("fixed-elastic", {"workers": 1, **elastic(minReplicas=1, maxReplicas=4)}, "a job with 1 worker"),
    ("no-master", {"without": ["Master"]}, "has no Master"),
    ("sidecar-injected", {"metadata": {"labels": {"sidecar.istio.io/inject": "true"}}}, "metadata.labels[sidecar"),
    ("host-path", {"pod": {"volumes": [HOST, VOLUME]}}, "volumes[data].hostPath is /data"),
]
RIGHT = {
    "a careful job": {},
    "a digest": a_container(image=f"train@sha256:{'0' * 64}"),
    "the memory of the whole pod": a_container(resources={"limits": GPU}) | {"pod": {"resources": {"limits": MEMORY}}},
    "both backends": words("python train.py --backend cpu:gloo,cuda:nccl"),
    "a path with the word": words("python /opt/gloo/train.py"),
    "the memory of the node": {**a_container(volumeMounts=[]), "pod": {"hostIPC": True}},
    "a shell with one text": a_container(command=["sh", "-c", "python train.py"]),
    "a shell that uses its words": a_container(command=["sh", "-c", 'exec "$@"', "sh", "python", "train.py"]),
    "words about tokens": env(TOKENIZERS_PARALLELISM="false", MAX_TOKENS="4096", PAD_TOKEN="<pad>", TOKEN="/run/token"),
    "a reference": env(HF_TOKEN="$(OTHER)"),
    "the operator's value": env(WORLD_SIZE="3", PYTHONUNBUFFERED="x"),
    "a rank from the pod": words("torchrun --node-rank=$RANK --nnodes=3 train.py"),
    "torchrun in one pod": {"without": ["Worker"], **words("torchrun --standalone --max-restarts=3 train.py")},
    "a deadline": {"role": {"restartPolicy": "OnFailure"}, "job": {"runPolicy": POLICY | {"activeDeadlineSeconds": 9}}},
    "a grace by annotation": {
        "pod": {"terminationGracePeriodSeconds": None},
        "annotations": {"trainshed.dev/checkpoint-on-sigterm": "2m"},
    },
    "no restarts": {"pod": {"terminationGracePeriodSeconds": None}, "role": {"restartPolicy": "Never"}},
    "a job that is deleted": {"job": {"runPolicy": {"backoffLimit": 3, "ttlSecondsAfterFinished": 60}}},
    "workers that wait": {"kind": "MPIJob", "job": {"runPolicy": POLICY}},
    "a range": elastic(minReplicas=1, maxReplicas=4),
    "one worker": {"without": ["Master"], "workers": 1},
    "no sidecar": {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}},
    "a device": {"pod": {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]}},
}


@pytest.mark.parametrize(("rule", "parts", "text"), WRONG)
def test_each_rule_finds_what_it_is_for_and_can_be_switched_off(rule, parts, text):
    job = a_job(**parts)
    before = said(job)
    (line,) = [line for line in before if line.rule == rule]
    assert text in f"{line.path} {line.message}"
    assert said(job, rule) == [line for line in before if line.rule != rule]
    job["metadata"]["annotations"] = {DISABLE: f" {rule},{rule}"}
    assert said(job) == said(job, rule)


@pytest.mark.parametrize("parts", RIGHT.values(), ids=list(RIGHT))
def test_a_careful_job_has_no_findings(parts):
    assert said(a_job(**parts)) == []


def test_the_examples_and_the_job_of_the_page_on_gpus_have_no_findings():
    result = CliRunner().invoke(cli, ["lint", "--strict", "-R", "-f", str(ROOT / "examples")])
    assert (result.exit_code, result.stdout) == (0, "")
    assert [said(job) for job in jobs(FOLDER / "gpus.md")] == [[]]


def test_each_rule_has_a_row_and_a_section_of_the_page():
    headings = re.findall(r"^### (\S+)$", (ROOT / "docs" / "check.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(RULES) == sorted({rule for rule, _, _ in WRONG})


@pytest.mark.parametrize(
    ("change", "arguments", "code", "text"),
    [
        ({}, (), 0, ""),
        (a_container(image="train"), (), 0, "warning: PyTorchJob mnist: spec.pytorchReplicaSpecs[Master,Worker]."),
        (a_container(image="train"), ("--strict",), 1, "(floating-tag)\n"),
        (a_container(image=""), (), 1, "standard input, document 1, line 20: error: PyTorchJob mnist: spec."),
        (
            {"pod": {"volumes": [VOLUME, {"name": "Data"}]}},
            (),
            1,
            "error: pod mnist-master-0: spec.volumes[1].name: Invalid",
        ),
        (a_container(resources={"requests": GPU, "limits": MEMORY}), (), 1, "error: PyTorchJob mnist: spec."),
    ],
)
def test_the_exit_code_says_whether_there_are_errors(change, arguments, code, text):
    result = lint(a_job(**change), *arguments)
    assert (result.exit_code, text in result.stdout) == (code, True), result.output


PLACED = """\
# a list of one job
apiVersion: v1
kind: List
items:
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata: {name: a}
  spec: &spec
    pytorchReplicaSpecs:
      Worker:
        replicas: 1
        template:
          spec:
            containers:
              - name: pytorch
                image: "x:1"
                imagePullPolicy: Often
---
{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "b"},
 "spec": {"pytorchReplicaSpecs": {"Worker":
   {"replicas": -1}}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, image: "x:1"}]}}}}}
"""


def test_a_problem_has_the_line_of_its_field_and_none_if_it_is_not_known():
    result = CliRunner().invoke(cli, ["lint", "-f", "-"], input=PLACED)
    places = [line.partition(": error")[0].removeprefix("standard input, ") for line in result.stdout.splitlines()]
    assert places == ["document 1, line 17, items[0]", "document 2, line 21", "document 3"], result.output


def test_a_rule_that_does_not_exist_is_named():
    job = a_job()
    job["metadata"]["annotations"] = {DISABLE: "no-memory"}
    assert [line["rule"] for line in found(job)] == ["unknown-rule"]
    assert lint(job, "--disable", "no-memory").exit_code == 2


def test_a_secret_is_not_printed_and_names_cannot_forge_lines():
    job = a_job(**env(TOKEN="swordfish-123"))
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"] = [
        *(VOLUME, {"name": "a\nb\x1b[31m", "hostPath": {"path": "/data"}})
    ]
    result = lint(job)
    assert "swordfish" not in result.output
    assert "\x1b" not in result.stdout
    assert all(line.startswith("standard input, ") for line in result.stdout.splitlines())


def test_findings_have_the_order_of_their_lines_and_one_mark_at_their_end():
    careless = {"container": {"image": "train:latest", "resources": {}}, "annotations": {DISABLE: "nope"}}
    words = writer.write([a_job(**careless)])
    result = CliRunner().invoke(cli, ["lint", "-f", "-"], input=words)
    numbers = [int(number) for number in re.findall(r", line (\d+)", result.stdout)]
    assert len(numbers) > 2
    assert numbers == sorted(numbers), result.stdout
    assert not re.search(r"[.?!][.;]", result.stdout), result.stdout
