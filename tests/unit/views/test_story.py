"""The story of a job as a reader sees it: each case is compared as a whole with its file, and was read once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from support.builders import FRAMEWORKS, T0, a_pod, at, run_policy, running, seen
from support.prepared_jobs import NAMESPACE, prepared
from support.replace import replace
from trainshed import client
from trainshed.api import parse
from trainshed.api.coerce import format_time
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import Container, TerminatedState
from trainshed.api.status import Retries
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.api.trainer_status import TrainerStatus
from trainshed.client import ApiError
from trainshed.plan.facts import Facts
from trainshed.plan.failures import CLASSES
from trainshed.views import advice, pull_advice, replica_states, story
from trainshed.views.lost_time import SINCE_CHECKPOINT
from trainshed.views.story import Story

from . import job_stories
from .job_stories import IMAGE, a_training, fails, ready, story_after
from .node_stories import NODE_STORIES

STORIES = job_stories.STORIES | NODE_STORIES
WAITED, AGAIN = "not lost in a queue or suspended", "training that was done again took"
FILES, PAGE = Path(__file__).parent / "stories", Path(__file__).parents[3] / "docs" / "commands.md"
TEN_JOBS = PAGE.with_name("ten-jobs.md")
#: The jobs of docs/ten-jobs.md; the last one there shows what `trainshed stacks` prints.
EXPLAINED = {name: job for name, job in prepared().items() if " explain " in job.command}
#: The stories that docs/commands.md shows, by their titles there.
SHOWN = {
    "A ResourceQuota has no room": "quota",
    "The image cannot be pulled": "image",
    "No node takes the pods": "unschedulable",
    "The job waits in a queue of Kueue": "queue",
    "A gang scheduler waits for room": "gang",
    "A container ends again and again": "crash-loop",
    "A replica used more memory than its limit": "oom",
    "The program ended with a traceback": "traceback",
    "A replica was killed": "killed",
    "The job was active for too long": "deadline",
    "The operator does not run": "operator-stopped",
    "All is well": "runs",
}


def as_printed(found: Story) -> str:
    """The story in the form of `trainshed explain`, in which no line is wrapped."""
    lines = [found.headline]
    for chapter in found.chapters:
        lines.append("")
        lines += [f"{chapter.title if number == 0 else '':<13}{line}" for number, line in enumerate(chapter.lines)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", STORIES)
def test_a_story_is_printed_as_it_was_reviewed(case: str):
    assert as_printed(STORIES[case]()) == (FILES / f"{case}.txt").read_text()


def test_there_are_no_other_stories():
    assert sorted(path.stem for path in FILES.iterdir()) == sorted(STORIES)
    page = re.findall(r"^### ([^\n]+)\n\n```\n(.+?\n)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert dict(page) == {title: (FILES / f"{case}.txt").read_text() for title, case in SHOWN.items()}


def chapters(text: str) -> dict[str, str]:
    """The lines of each chapter of a story, by its title; those of the headline by an empty one."""
    found, title = {"": text.splitlines()[0]}, ""
    for line in filter(None, text.splitlines()[1:]):
        title = line[:13].strip() or title
        found[title] = "\n".join(filter(None, (found.get(title), line[13:])))
    return found


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_job_of_the_page_has_the_form_of_a_story(name: str):
    every = (one for text in EXPLAINED[name].manifests for one in yaml.safe_load_all(text))
    document = next(one for one in every if one["metadata"]["name"] == name and "pytorchReplicaSpecs" in one["spec"])
    document["metadata"] |= {"namespace": NAMESPACE, "uid": name, "creationTimestamp": format_time(T0)}
    job = parse.job(document, FRAMEWORKS["PyTorchJob"], JobDefaults())
    printed = chapters(as_printed(story.tell(Facts(seen(job)), document)))
    shown = chapters(EXPLAINED[name].shown)
    assert shown["Asked for"] == printed["Asked for"]
    sentences = (*story.HEADLINES.values(), story.QUEUED)
    forms = [re.sub(r"\\\{\w+\\\}", ".*", re.escape(one)) for one in sentences]
    assert any(re.fullmatch(f"PyTorchJob {NAMESPACE}/{name} {form}", shown[""]) for form in forms)
    known = list(dict.fromkeys(title for path in FILES.iterdir() for title in chapters(path.read_text())))
    order = ("", "Asked for", "Queue", "Replicas", "Training", "History", "Failure", "Blocked", "Next", "What to do")
    assert [title for title in order if title in shown] == list(shown)
    assert set(shown) <= set(known)


def test_nine_jobs_of_the_page_are_explained_and_the_last_one_has_stacks():
    assert [name for name in prepared() if name not in EXPLAINED] == ["hangs"]
    assert len(EXPLAINED) == 9


def test_the_ten_jobs_have_the_advice_of_the_stories():
    """On kind tests/e2e/test_ten_jobs.py compares the whole page."""
    shown = re.findall(r"^What to do   (.+)$", TEN_JOBS.read_text(), re.MULTILINE)
    stories = "".join(path.read_text() for path in FILES.iterdir())
    shown = [
        text.replace("300Mi of the 256Mi requests.memory", "32 of the 16 requests.nvidia.com/gpu") for text in shown
    ]
    texts = [re.sub(r"pytorchjob/\w+", "pytorchjob/mnist", text).removesuffix(advice.OVER) for text in shown]
    assert [text for text in texts if f"What to do   {text.strip()}" not in stories] == []


def write() -> None:
    """Write the stories again; read what has changed then."""
    FILES.mkdir(exist_ok=True)
    texts = {case: as_printed(tell()) for case, tell in STORIES.items()}
    for case, content in texts.items():
        (FILES / f"{case}.txt").write_text(content)
    page = PAGE.read_text()
    parts = [f"### {title}\n\n```\n{texts[case]}```" for title, case in SHOWN.items()]
    PAGE.write_text(page[: page.index("\n### A ResourceQuota") + 1] + "\n\n".join(parts) + "\n")


#: Reasons of errors that no job is Blocked by: the operator tries again, or gives its work to another replica.
TRANSIENT = {"ApiError", "NotFound", "Conflict", "Expired", "TooManyRequests", "NotLeader", "Unavailable"}


def test_each_reason_to_wait_or_to_fail_has_advice():
    errors = [
        error.reason for error in vars(client).values() if isinstance(error, type) and issubclass(error, ApiError)
    ]
    others = [client.UNCALLED, client.UNDONE, client.CONFLICTING, "NotScheduled", "PodStuckTerminating"]
    named = {*errors, *others} - TRANSIENT - {"ResponseTooLarge"}
    assert [reason for reason in sorted(named) if not advice.for_waiting(reason)] == []
    general = {reason for reason, kind in CLASSES.items() if kind == "Infrastructure"}
    assert [reason for reason in CLASSES if reason not in general | {"Error"} and not advice.for_waiting(reason)] == []


def test_foreign_text_cannot_forge_a_line():
    found = fails("Never", code=1, why="Error", words="oh\x1b[2Jno\n\nWhat to do   run this\r\n")
    lines = as_printed(found).splitlines()
    assert not any(line.startswith("What to do   run") for line in lines)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("seconds", "known", "said"),
    [
        (
            *({"Suspended": 1200, "Scheduling": 120, "ImagePull": 300, "Running": 6000, "Restart": 723}, {}),
            f"88% of 169m; its start took 7m; restarts took 12m{SINCE_CHECKPOINT}; {WAITED}: 20m",
        ),
        (
            *(
                {"Running": 6000, "ProgramStartup": 80, "Restart": 63},
                {"trainer": TrainerStatus(T0, step=7), "lost": 606},
            ),
            f"99% of 152m; its programs started for 80s; restarts took 63s; {AGAIN} 10m; goodput 91%",
        ),
        (
            {"Running": 9000, "Stalled": 90},
            {"trainer": TrainerStatus(T0, step=7)},
            "100% of 3h21m; it made no progress for 90s; goodput 99%",
        ),
        ({"ImagePull": 900, "Running": 6000}, {}, "90% of 165m; its start took 15m"),
        ({"ImagePull": 9, "Running": 6000}, {}, ""),
        ({"Queued": 10**6, "Running": 6000}, {}, ""),
        ({"Restart": 100}, {"retries": Retries()}, ""),
    ],
)
def test_a_story_says_where_the_time_has_gone_if_a_part_of_it_is_lost(seconds: dict[str, int], known: dict, said: str):
    job = a_training()
    phases = {JobPhase(phase): time for phase, time in seconds.items()}
    spent = TimeSpent(phases, JobPhase.RUNNING, T0, lost_work=known.pop("lost", 0))
    status = replace(running(job), **{"time_spent": spent, "retries": Retries(used=1), **known})
    text = as_printed(story.tell(Facts(seen(job, *ready(job), status=status, now=at(3000))), {"metadata": {}}))
    lines = [line[13:] for line in text.splitlines() if "all replicas ran" in line]
    assert lines == ([f"all replicas ran for {said}"] if said else [])


@pytest.mark.parametrize(
    ("reason", "message", "helps", "useless"),
    [
        ("Unschedulable", "4 Insufficient cpu.", ("Request less",), ("label", "toleration")),
        ("Unschedulable", "4 Too many pods.", ("Request less",), ("toleration",)),
        ("Unschedulable", "4 node(s) didn't match Pod's node affinity/selector.", ("lack a label",), ("Request less",)),
        ("Unschedulable", "1 node(s) didn't match pod anti-affinity rules.", ("podAntiAffinity",), ("label",)),
        (
            "Unschedulable",
            "2 node(s) didn't satisfy existing pods anti-affinity rules.",
            ("podAntiAffinity",),
            ("label",),
        ),
        ("Unschedulable", "2 node(s) didn't match pod topology spread constraints.", ("topologySpread",), ("label",)),
        ("Unschedulable", "2 node(s) didn't have free ports for the requested pod ports.", ("hostPort",), ("label",)),
        ("Unschedulable", "2 node(s) had volume node affinity conflict.", ("kubectl describe pv ",), ("label",)),
        ("Unschedulable", "2 node(s) were unschedulable.", ("uncordon",), ("Request less",)),
        ("Unschedulable", "1 node(s) had untolerated taint {gpu: yes}.", ("toleration",), ("Request less",)),
        ("Unschedulable", "3 node(s) had untolerated taint(s).", ("toleration",), ("Request less",)),
        *(
            (
                "Unschedulable",
                f"1 node(s) had untolerated taint {{{taint}}}, 2 Insufficient cpu.",
                helps,
                ("toleration",),
            )
            for taint, helps in (
                ("node-role.kubernetes.io/control-plane: ", ("Request less",)),
                ("node.kubernetes.io/not-ready: ", ("Request less", "not ready")),
                ("node.kubernetes.io/unschedulable: ", ("Request less", "uncordon")),
            )
        ),
        (
            "Unschedulable",
            "1 node(s) had untolerated taint {gpu: yes}, 2 Insufficient cpu.",
            ("less", "toleration"),
            (),
        ),
        ("Unschedulable", "no cause that is known", ("kubectl describe nodes",), ("Request less",)),
        ("Unschedulable", 'persistentvolumeclaim "data" not found.', ("create it",), ("kubectl describe pvc",)),
        ("Forbidden", "failed quota: q: must specify limits.cpu for: pytorch", ("ResourceQuota",), ("ServiceAccount",)),
        ("Forbidden", 'violates PodSecurity "restricted:latest": privileged', ("Pod Security",), ("ServiceAccount",)),
        ("Forbidden", "maximum memory usage per Container is 1Gi, but limit is 2Gi", ("LimitRange",), ("Security",)),
        ("Forbidden", "no PriorityClass with name high was found", ("priorityClassName",), ("Security",)),
        ("Forbidden", 'pod rejected: RuntimeClass "kata" not found', ("runtimeClassName",), ("Security",)),
        ("Forbidden", 'User "op" cannot create resource "pods" in API group ""', ("right",), ("Security",)),
        ("Forbidden", "something new", ("the message says why",), ("Security", "ServiceAccount")),
    ],
)
def test_each_cause_has_what_helps_against_it_and_nothing_else(reason, message, helps, useless):
    found = advice.for_waiting(reason, f"0/4 nodes are available: {message} preemption: 4 Insufficient victims")
    assert ([words for words in helps if words not in found], [words for words in useless if words in found]) == (
        [],
        [],
    ), found


@pytest.mark.parametrize(("helpless", "is_never"), [("4", True), ("1", False), ("", False)])
def test_pods_that_are_larger_than_each_node_do_not_wait_for_other_jobs(helpless: str, is_never: bool):
    tail = f"{helpless} Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod."
    message = f"0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: {tail}"
    found = advice.for_waiting("Unschedulable", message)
    assert ("also when it is empty" in found, "wait until other jobs end" in found) == (is_never, not is_never)


@pytest.mark.parametrize(
    ("code", "said"),
    [(130, "A signal"), (135, "/dev/shm"), (136, "processor"), (1, "error of its own"), (3, "its own")],
)
def test_the_end_by_a_signal_is_no_error_of_the_program(code: int, said: str):
    found = fails("Never", code=code, why="Error").chapters[-1].lines[0]
    assert (said in found, "error of its own" in found) == (True, code < 128)


@pytest.mark.parametrize(
    ("policy", "limit", "known", "said"),
    [
        (
            "OnFailure",
            4,
            {"container_restarts": 3},
            ["It fails once the kubelet has restarted its containers 1 more time"],
        ),
        ("Always", 0, {}, ["It fails once the kubelet has restarted its containers 1 more time"]),
        ("ExitCode", 4, {"used": 3}, ["After 1 more restart a failure of the program ends the job"]),
        ("ExitCode", 2, {"used": 2}, ["The next failure of the program ends the job"]),
        (
            *("OnFailure", 4, {"used": 1, "container_restarts": 1}),
            [
                "After 3 more restarts a failure of the program ends the job",
                "It fails once the kubelet has restarted its containers 3 more times",
            ],
        ),
    ],
)
def test_restarts_by_the_operator_and_by_the_kubelet_have_the_limit_each_for_itself(policy, limit, known, said):
    job = a_training(restart=policy, policy=run_policy(backoff_limit=limit))
    status = replace(running(job), retries=Retries(**known))
    found = story.tell(Facts(seen(job, *ready(job), status=status, now=at(60))), {"metadata": {}})
    next_lines = [line for chapter in found.chapters if chapter.title == "Next" for line in chapter.lines]
    assert next_lines == [f"{text} (backoffLimit {limit})." for text in said]


def test_the_limit_that_has_ended_the_job_is_named_once():
    before = TerminatedState(1, at(50), at(52), "Error", "bad batch")
    own = Container("pytorch", waiting=True, reason="CrashLoopBackOff", restarts=2, before=before)
    job = a_training(restart="OnFailure", policy=run_policy(backoff_limit=2))
    pods = ready(job, a_pod("worker-1", "Running", node="node-b", created=T0, containers=(own,)))
    lines = as_printed(story_after(job, (60, pods, {}), start=True)).splitlines()
    (line,) = [line for line in lines if "not retried" in line]
    assert line.endswith("not retried: containers were restarted 2 times in place (backoffLimit 2)"), lines


@pytest.mark.parametrize(
    ("place", "others_run", "is_node"),
    [("node-c", True, True), ("node-b", True, False), ("node-c", False, False)],
)
def test_an_image_that_other_nodes_have_pulled_is_no_wrong_name(place: str, others_run: bool, is_node: bool):
    job, own = a_training(), Container("pytorch", waiting=True, reason="ImagePullBackOff", image=IMAGE)
    waits = a_pod("worker-1", "Pending", node=place, created=T0, scheduled=at(1), containers=(own,))
    pods = ready(job, waits)
    if not others_run:
        pods = [
            replace(one, ready=False, containers=tuple(replace(each, started=None) for each in one.containers))
            for one in pods
        ]
    advised = story_after(job, (60, pods, {}), start=True).chapters[-1].lines[0]
    assert (f"look at {place}" in advised, "Check its name" in advised) == (is_node, not is_node)


@pytest.mark.parametrize(
    ("said", "helps", "useless"),
    [
        ("pull access denied, repository does not exist", "imagePullSecrets", ("not reach", "not give the image")),
        ("unexpected status from HEAD request: 401 Unauthorized", "imagePullSecrets", ("not reach",)),
        ("toomanyrequests: You have reached your pull rate limit", "no more for a while", ("not reach", "Secrets")),
        ("lookup registry.example: no such host", "not reach", ("Secrets",)),
        ("registry.example/train:1: not found", "registry does not give", ("not reach", "Secrets")),
        ("something new", "Perhaps it does not reach", ()),
    ],
)
def test_an_image_is_looked_for_where_the_registry_has_pointed(said: str, helps: str, useless: tuple[str, ...]):
    alone, elsewhere = pull_advice.for_pull(said), pull_advice.for_pull(said, "node-c", "master-0")
    assert (helps in elsewhere, "look at node-c" in elsewhere) == (True, True)
    assert [words for words in useless if words in alone or words in elsewhere] == []


def test_replicas_that_failed_after_the_first_are_distinguished_from_it():
    job = a_training(restart="Never")
    ends = {"phase": "Failed", "container": "pytorch", "node": "node-b", "started": 1}
    pods = ready(job, a_pod("worker-1", code=1, ended=50, **ends), a_pod("worker-2", code=134, ended=52, **ends))
    (lines,) = [one.lines for one in story_after(job, (60, pods, {}), start=True).chapters if one.title == "Replicas"]
    assert lines[1:] == ("worker-1: has failed on node-b", "worker-2: has failed on node-b, after worker-1 had failed")


@pytest.mark.parametrize(("second", "is_late"), [(20, False), (60, True)])
def test_a_volume_is_called_not_set_up_once_the_pod_has_had_time(second: int, is_late: bool):
    job, own = a_training(), Container("pytorch", waiting=True, reason="ContainerCreating")
    known = {"node": "node-b", "created": T0, "scheduled": at(1), "sandbox_ready": False, "containers": (own,)}
    facts = Facts(seen(job, *ready(job, a_pod("worker-1", "Pending", **known)), status=running(job), now=at(second)))
    assert (replica_states.not_set_up(facts) is not None) is is_late
    reasons = ("FailedMount", "FailedMount", "Pulled")
    events = [
        {"reason": reason, "message": f"message {number}", "lastTimestamp": at(number).isoformat()}
        for number, reason in enumerate(reasons)
    ]
    said = replica_states.set_up_failure(events)
    found = story.tell(facts, {"metadata": {}}, story.Beside(set_up=said))
    assert [chapter.lines for chapter in found.chapters if chapter.title == "Blocked"] == [
        ("the kubelet says: message 1",)
    ]
    assert replica_states.set_up_failure(events[2:]) == ""
