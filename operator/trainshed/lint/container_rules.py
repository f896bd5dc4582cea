"""Rules about the containers of a job: images, commands, variables and resources."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Replica
from trainshed.api.quantities import parse_quantity
from trainshed.frameworks.pytorch import PyTorchJobOptions

from .remark import GPU, LintedJob, LintRule, Part, Remark, pod_spec

#: The end of an image without a tag or digest, whose registry may have a port.
UNTAGGED = re.compile(r"(?:^|/)[^/:@]+$")
#: The kinds whose backend is named in the command, and whose data loaders pass batches through /dev/shm.
TORCH, PADDLE = "PyTorchJob", "PaddleJob"
#: The word gloo, but not as a part of a path or of another name.
GLOO, NCCL = re.compile(r"(?<![\w./-])gloo(?![\w./-])", re.IGNORECASE), "nccl"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 # nosec B108 - a mount, not a file
SHELLS = ("sh", "bash", "ash", "dash", "zsh")
#: How the names of variables end that hold a secret.
SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY)$", re.IGNORECASE
)
#: A value that can be a secret: not a path, a number, a token of a tokenizer such as `<pad>`, nor a reference `$(X)`.
SECRET_VALUE = re.compile(r"(?!/|\d+$|true$|false$|none$|null$)[\w!#%&*+,.:;=?@^~/-]{6,}", re.IGNORECASE | re.ASCII)
#: Secrets that are known by their beginning: Hugging Face, GitHub, AWS, OpenAI, Slack.
KNOWN_SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16}|sk-[\w-]{20,}|xox[abpr]-[\w-]{10,})"
)
#: Options of torchrun whose value is wrong if all replicas have it, with these values.
FIXED = {
    "node-rank": re.compile(r"\d+"),
    "nnodes": re.compile(r"1(?::1)?"),
    "master-addr": re.compile(r"localhost|127\.0\.0\.1"),
    "rdzv-endpoint": re.compile(r"(?:localhost|127\.0\.0\.1)(?::\d+)?"),
    "standalone": re.compile(r".*"),
}
OPTION, TORCHRUN = re.compile(r"--([\w-]+)(?:=(.*))?", re.DOTALL), re.compile(r"\b(?:torchrun|torch\.distributed)\b")
#: Variables that are the same for all that set them: their value says nothing.
HARMLESS = ("PYTHONUNBUFFERED",)


def _no_memory_limit(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.own_parts():
        of_pod = as_mapping(as_mapping(pod_spec(part.group).get("resources")).get("limits"))
        if "memory" not in part.amounts("limits") and "memory" not in of_pod:
            yield part.remark("resources.limits.memory", "is not set, so a leak takes the memory of the whole node")


def _floating_tag(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.parts():
        image = parse_text(part.container.get("image"))
        if UNTAGGED.search(image):
            yield part.remark("image", f"{image} has no tag, which means latest: replicas may run different images")
        elif image.endswith(":latest"):
            yield part.remark("image", f"{image} may be another image tomorrow, or on another node")


def _gpus_without_equal_limit(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.parts():
        limits = part.amounts("limits")
        for name, amount in part.amounts("requests").items():
            if GPU.fullmatch(name) and parse_quantity(limits.get(name)) != parse_quantity(amount):
                wrong = f"is {limits[name]}" if name in limits else "is not set"
                yield part.remark(f"resources.limits[{name}]", f"{wrong}, and the request is {amount}")


def _gloo_on_gpus(subject: LintedJob) -> Iterator[Remark]:
    if subject.job.kind not in (TORCH, PADDLE):
        return
    for part in subject.own_parts():
        if not part.gpus:
            continue
        texts = [("command", word) for word in part.words] + [(f"env[{name}]", text) for name, text in part.env.items()]
        for where, text in texts:
            if GLOO.search(text) and NCCL not in text.lower():
                yield part.remark(where, "names the backend gloo, which copies all that GPUs exchange through the CPU")
                break


def _small_shared_memory(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.own_parts():
        mounts = [
            parse_text(as_mapping(item).get("mountPath")) for item in as_sequence(part.container.get("volumeMounts"))
        ]
        shared = SHARED_MEMORY in (path.rstrip("/") for path in mounts) or pod_spec(part.group).get("hostIPC")
        if subject.job.kind in (TORCH, PADDLE) and part.gpus and not shared:
            yield part.remark("volumeMounts", "has nothing at /dev/shm, which has 64 MiB then: data loaders need more")


def _command_is_one_text(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.parts():
        first = parse_text(next(iter(as_sequence(part.container.get("command"))), ""))
        if len(first.split()) > 1:
            yield part.remark("command[0]", "has spaces, so that a program with this whole name is looked for")


def _shell_drops_words(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.parts():
        match part.words:
            case [shell, flag, script, _, *_] if _is_shell(shell, flag) and not re.search(r"[\s$]", script):
                yield part.remark(
                    "command", f"runs {script!r} alone: sh -c takes one word, and the next ones are $0, $1"
                )


def _is_shell(shell: str, flag: str) -> bool:
    return shell.rpartition("/")[2] in SHELLS and re.fullmatch(r"-[a-z]*c", flag) is not None


def _secret_in_environment(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.parts():
        for name, value in part.env.items():
            if KNOWN_SECRET.search(value) or (SECRET_NAME.search(name) and SECRET_VALUE.fullmatch(value)):
                yield part.remark(f"env[{name}]", "seems to be a secret, which all users can read who may see the job")
        for field in ("command", "args"):
            if any(KNOWN_SECRET.search(parse_text(word)) for word in as_sequence(part.container.get(field))):
                yield part.remark(field, "seems to have a secret, which all users can read who may see the job")


def _variable_overridden(subject: LintedJob) -> Iterator[Remark]:
    if not any(part.env for part in subject.own_parts()):
        return
    variables = subject.framework.hooks.environment(subject.job, JobDefaults())
    for part in subject.own_parts():
        for variable in variables(Replica(part.group.role, 0)):
            written = part.env.get(variable.name)
            kept = variable.user_overridable or variable.name in HARMLESS
            if written not in (None, variable.value) and not kept:
                yield part.remark(f"env[{variable.name}]", "has no effect: the operator sets this variable")


def _fixed_rendezvous(subject: LintedJob) -> Iterator[Remark]:
    """Options of torchrun are read from the command line first, and from the operator's variables then."""
    for part in subject.own_parts():
        for name, value in _torchrun_options(subject, part):
            if (form := FIXED.get(name)) and form.fullmatch(value):
                shown = f"--{name}" if name == "standalone" else f"--{name} {value}"
                yield part.remark("command", f"has {shown} for all replicas, in place of the operator's values")


def _node_restarts_alone(subject: LintedJob) -> Iterator[Remark]:
    for part in subject.own_parts():
        for name, value in _torchrun_options(subject, part):
            elastic = subject.job.options_as(PyTorchJobOptions).elastic
            if name == "max-restarts" and value != "0" and not elastic:
                yield part.remark("command", f"lets torchrun restart each node by itself (--max-restarts {value})")


def _torchrun_options(subject: LintedJob, part: Part) -> Iterator[tuple[str, str]]:
    """Yield the options of torchrun, in a job with several replicas; a value is in the same word or in the next one."""
    words = [word for text in part.words for word in text.split()]
    if subject.job.kind != TORCH or subject.job.size == 1 or not any(map(TORCHRUN.search, words)):
        return
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if found := OPTION.fullmatch(word):
            name, value = found.groups()
            yield name.replace("_", "-"), after if value is None else value


RULES = (
    LintRule("no-memory-limit", _no_memory_limit, "Set it to the most that the container needs."),
    LintRule("floating-tag", _floating_tag, "Name a tag that stays the same, or a digest."),
    LintRule(
        "gpus-without-equal-limit",
        _gpus_without_equal_limit,
        "The API server refuses the pod: set the limit, and leave out the request or make it equal.",
        is_error=True,
    ),
    LintRule(
        "gloo-on-gpus", _gloo_on_gpus, "Use nccl, or cpu:gloo,cuda:nccl if tensors on the CPU are exchanged as well."
    ),
    LintRule(
        "small-shared-memory", _small_shared_memory, "Mount an emptyDir with medium: Memory and a sizeLimit there."
    ),
    LintRule("command-is-one-text", _command_is_one_text, "Make each word an item of the list, or use [sh, -c, ...]."),
    LintRule(
        "shell-drops-words", _shell_drops_words, "Write the command as one text after -c, or leave out the shell."
    ),
    LintRule("secret-in-environment", _secret_in_environment, "Put it into a Secret, and use valueFrom.secretKeyRef."),
    LintRule("variable-overridden", _variable_overridden, "Remove it, or read a variable of another name."),
    LintRule(
        "fixed-rendezvous", _fixed_rendezvous, "Leave the option out: torchrun reads PET_NODE_RANK and the others."
    ),
    LintRule(
        "node-restarts-alone",
        _node_restarts_alone,
        "Nodes that count restarts by themselves wait for each other without end: let the operator restart the job.",
    ),
)
