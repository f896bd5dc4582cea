"""Limits on the structure of the code: sizes, imports, names, one broad except, nothing from one machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import code_metrics
from trainshed.plan import failures, pod_groups

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = ROOT / "operator" / "trainshed"
TESTS = ROOT / "tests"
HACK = ROOT / "hack"
EXAMPLES = ROOT / "examples"

FILE_LINES = 400
#: The docstring of a module, after comments.
DOCSTRING = re.compile(r'(?:#.*\n|\s)*r?"""(.*?)"""', re.DOTALL)
#: Files that may be longer, up to 600 lines, each with its reason.
LONGER_FILES: dict[str, str] = {}
FUNCTION_LINES = 50
#: Names of functions that do not say what these do or return, as `plan_for` does.
SAYS_NOTHING = ("look", "looks", "looked")
#: The number of modules in the longest chain of imports.
IMPORT_CHAIN = 16
#: A module that has fewer lines and only one importer needs a reason.
SMALL_MODULE = 80
SMALL_MODULES = {
    "trainshed.local.last_pods": "how long a run waits for its last pods, apart from how it waits",
    "trainshed.local.node.container_output": "what becomes of output, apart from the order of containers",
    "trainshed.coroutines": "signals and event loops, apart from what a run does",
    "trainshed.local.stack_report": "what is read when the user asks, apart from the order of a run",
    "trainshed.local.decision_log": "what is kept for replays, apart from the order of a run",
    "trainshed.decisions.ring_reader": "what is asked of the API server, apart from the form of what it has",
    "trainshed.decisions.again": "what is decided again, apart from how it is printed",
    "trainshed.local.history": "what is kept for reports, apart from the order of a run",
    "trainshed.local.training_progress": "what an output says of the training, apart from how it is printed",
    "trainshed.local.launcher.marks": "how processes are distinguished, apart from how they are isolated",
    "trainshed.local.runtimes.docker_variables": "the format of two programs, with its table of names",
    "trainshed.client.config_maps": "whole objects of a kind of which the operator otherwise keeps digests",
    "trainshed.plan.lost_work": "what steps say of the time, apart from what pods say",
    "trainshed.fit.node_sizes": "what empty nodes have, apart from the sentences about it",
    "trainshed.controller.staleness": "how current the cache is, apart from what it has",
    "trainshed.plan.regrouping": "a rule about groups of Kueue, apart from those of all jobs",
    "trainshed.ui.drawings.sparkline": "one drawing, one file",
    "trainshed.ui.pages.job": "one page, one file",
    "trainshed.local.local_controller": "what reconciles, apart from the order of a run",
    "trainshed.cli.local_page": "the page, which few runs need",
    "trainshed.ui.changes": "the only module of the page that writes",
    "trainshed.ui.pages.actions": "forms, apart from what is read",
    "trainshed.ui.seen_pods": "what is kept of a pod, apart from how pods are followed",
    "trainshed.ui.stories": "what is read for one job, apart from what is followed of all",
    "trainshed.client.credential_plugin": "the official client, which is imported only for a plugin",
    "trainshed.client.proxies": "the rules of another program, apart from the fields of a kubeconfig",
    "trainshed.client.tunnel": "the protocol of proxies, apart from the one spoken through them",
    "trainshed.client.coalescing": "pauses of the event loop, apart from HTTP",
    "trainshed.event_loop": "uvloop, which only the operator imports",
    "trainshed.controller.creations": "the order of creations, apart from each one",
    "trainshed.controller.job_collector": "prometheus_client, which only the operator imports",
    "trainshed.controller.dependent_updates": "when dependents are updated, apart from how",
    "trainshed.controller.progress_forwarding": "what a replica that does not lead does, apart from the one that does",
    "trainshed.plan.messages.progress_reports": "the sentences of one topic",
    "trainshed.controller.loop_time": "how time is shared and measured, apart from the queue",
    "trainshed.controller.scheduler_messages": "what jobs of a namespace share, apart from the reconcile of one",
    "trainshed.controller.spent_time": "how the time of jobs is counted, apart from all other metrics",
    "trainshed.controller.debug_servers": "who is asked for stacks in a cluster, apart from when they are read",
    "trainshed.controller.node_reports": "what all jobs share, apart from the reconcile of one",
    "trainshed.controller.status_writes": "when a status is stored and what becomes of it, apart from how",
    "trainshed.api.time_codec": "what only those need who write or read the status",
    "trainshed.plan.final_counts": "numbers of replicas, apart from the rules",
    "trainshed.plan.messages.gang_scheduling": "the sentences of one topic",
    "trainshed.client.ownership": "what users read about objects of others, apart from the verbs",
    "trainshed.plan.init_containers": "what admission looks at, apart from what a pod does",
    "trainshed.views.markdown": "the format of other programs, apart from what is said",
    "trainshed.views.log_lines": "what a terminal shows of a log, apart from how logs are read",
    "trainshed.cli.job_documents": "the format of another program, apart from what is read",
    "trainshed.cli.go_style": "the form of another program's flags, apart from what they mean",
    "trainshed.cli.finished": "records, which only this option of a command reads",
    "trainshed.cli.notify_flags": "the flags of one feature, apart from all others",
    "trainshed.cli.crds": "one command, one file",
    "trainshed.ui.pages.job_yaml": "one page, one file",
    "trainshed.ui.pages.stacks_page": "one page, one file",
    "trainshed.cli.remove_finalizers": "one command, one file",
    "trainshed.ui.log_routes": "the addresses of one page, apart from what is read for it",
    "trainshed.ui.cluster_routes": "the addresses of one page, apart from what is read for it",
    "trainshed.trainjob.builtin_runtimes": "data, apart from what is made of it",
    "trainshed.trainjob.merging": "the rules of patches, apart from what is patched",
    "trainshed.frameworks.jax": "one kind of job, one file",
    "trainshed.frameworks.paddle": "one kind of job, one file",
    "trainshed.frameworks.xgboost": "one kind of job, one file",
}

#: What Kubernetes and Volcano write, with which the planner compares.
COMPARED = frozenset((*failures.DISK_LIMIT_MESSAGES, *failures.EVICTED_AT_ADMISSION, pod_groups.NO_TASKS))
#: What the controller makes of texts that users read in Events and conditions.
SPEAKERS = frozenset(("Event", "ConditionUpdate", "ApiRefusal", "Reverted", "StatusReverted", "StatusRejected"))

#: Module names that do not describe the content.
EMPTY_NAMES = frozenset(("utils", "util", "common", "helpers", "helper", "base", "misc", "tools"))

#: Names of two modules, of which one is that of a command: `trainshed run`, and the run that it starts; `trainshed
#: events`, and the recorder of Events.
HOMONYMS = frozenset(("run", "events"))

#: Package registries are a setting of the machine, not of the repository. In pieces: this file does not name them.
REGISTRIES = tuple(
    ".".join(labels) for labels in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"))
)


def files() -> tuple[Path, ...]:
    """Every file that is tracked, or would be with the next `git add`."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: the files of the project are unknown")
    found = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return tuple(sorted(path for path in found if path.is_file()))


def scripts(folder: Path) -> Iterator[tuple[str, str]]:
    """The path from the root and the text of each Python file below `folder`."""
    for path in files():
        if path.suffix == ".py" and folder in path.parents:
            yield path.relative_to(ROOT).as_posix(), path.read_text()


@cache
def imports() -> dict[str, frozenset[str]]:
    """The modules of the operator, each with the modules of the operator that it imports."""
    return code_metrics.imports({name.removeprefix("operator/"): source for name, source in scripts(OPERATOR)})


def test_the_longest_chain_of_imports_is_short() -> None:
    chain = code_metrics.longest_chain(imports())
    assert len(chain) <= IMPORT_CHAIN, chain


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    lines = {code_metrics.module(name.removeprefix("operator/")): s.count("\n") for name, s in scripts(OPERATOR)}
    packages = {name.rpartition(".")[0] for name in lines}
    importers = Counter(target for targets in imports().values() for target in targets)
    small = {name for name in lines if name not in packages and importers[name] == 1 and lines[name] < SMALL_MODULE}
    assert small - SMALL_MODULES.keys() == set()


def test_no_file_is_longer_than_its_budget() -> None:
    lengths = {name: source.count("\n") for name, source in scripts(ROOT)}
    assert {name: n for name, n in lengths.items() if n > (600 if name in LONGER_FILES else FILE_LINES)} == {}


def test_no_function_of_the_operator_is_longer_than_its_budget() -> None:
    lengths = {
        f"{name} {function}": n
        for name, source in scripts(OPERATOR)
        if not code_metrics.is_short(source, FUNCTION_LINES)
        for function, n in code_metrics.lengths(source).items()
    }
    assert lengths, "no function with comments and blank lines is that long"
    assert {function: n for function, n in lengths.items() if n > FUNCTION_LINES} == {}


def test_every_module_begins_with_a_sentence() -> None:
    mute = []
    for name, source in scripts(ROOT):
        docstring = DOCSTRING.match(source)
        if not docstring or not docstring[1].partition("\n\n")[0].rstrip().endswith((".", ":", "?")):
            mute.append(name)
    assert mute == []


def test_only_the_worker_and_what_hands_an_error_on_to_a_coroutine_catch_every_error() -> None:
    found = [
        f"{name}:{line}"
        for name, source in scripts(OPERATOR)
        if re.search(r"except\s*:|except\b[^:]*Exception\b", source)  # parsing all takes seconds
        for line in code_metrics.broad_excepts(source)
    ]
    assert [place.partition(":")[0].rpartition("/")[2] for place in found] == ["loop_time.py", "workqueue.py"], found


def test_the_planner_has_its_sentences_in_one_package() -> None:
    found = {
        name: [text for text in code_metrics.sentences(source) if text not in COMPARED]
        for name, source in scripts(OPERATOR / "plan")
        if "/plan/messages/" not in name
    }
    assert found, "no modules at all"
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_the_events_of_the_controller_have_the_sentences_of_the_planner() -> None:
    found = {name: code_metrics.sentences(source, SPEAKERS) for name, source in scripts(OPERATOR / "controller")}
    assert found, "no modules at all"
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_modules_have_specific_names() -> None:
    assert [
        name for folder in (OPERATOR, TESTS, HACK) for name, _ in scripts(folder) if Path(name).stem in EMPTY_NAMES
    ] == []


def test_functions_have_names_that_say_what_they_return() -> None:
    named = re.compile(rf"^\s*(?:async )?def (_?(?:{'|'.join(SAYS_NOTHING)}))\(", re.MULTILINE)
    found = [
        f"{name}: {nothing}"
        for folder in (OPERATOR, TESTS, HACK)
        for name, s in scripts(folder)
        for nothing in named.findall(s)
    ]
    assert found == []


def test_no_two_modules_of_the_operator_have_the_same_name() -> None:
    names = Counter(
        Path(name).stem
        for name, _ in scripts(OPERATOR)
        if not name.endswith("__init__.py") and "/ui/pages/" not in name  # they have the names of their URLs
    )
    assert {name for name, number in names.items() if number > 1} == HOMONYMS


def test_no_two_classes_of_the_operator_have_the_same_name() -> None:
    classes = re.compile(r"^\s*class (\w+)", re.MULTILINE)
    names = Counter(name for _, source in scripts(OPERATOR) for name in classes.findall(source))
    assert "Job" in names
    assert {name: number for name, number in names.items() if number > 1 and not name.startswith("_")} == {}


def test_the_folder_of_the_operator_is_no_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would shadow Python's own `operator`"


def test_tests_that_need_an_api_server_are_where_make_looks_for_them() -> None:
    (folders,) = re.findall(r"^SERVED := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    found = [path for path in TESTS.rglob("test_*.py") if re.search(r"mark\.apiserver\b", path.read_text())]
    assert len(found) > 10
    assert [path for path in found if not any(path.is_relative_to(ROOT / folder) for folder in folders.split())] == []


def test_every_example_is_an_end_to_end_test() -> None:
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "e2e")
    places = ("tests/e2e", "tests/conformance/test_end_to_end.py")
    collected = subprocess.run((*command, *places), cwd=ROOT, capture_output=True, text=True, check=False).stdout
    examples = sorted(f"{path.parent.name}/{path.stem}" for path in EXAMPLES.glob("*/*.yaml"))
    assert examples, "no examples at all"
    assert [name for name in examples if name not in collected] == [], collected


def test_nothing_in_the_repository_belongs_to_one_machine() -> None:
    # The path of the keys in MPI pods is set by mpi-operator.
    home = rf"{re.escape(f'{Path.home()}/')}(?!\.ssh\b)"
    places = "|".join((re.escape(str(ROOT)), home, r"/(?:home|Users)/\w"))
    private = re.compile(rf"(?<![\w.}})])(?:{places})|{'|'.join(map(re.escape, REGISTRIES))}")
    found = {path.relative_to(ROOT).as_posix(): private.findall(path.read_text(errors="replace")) for path in files()}
    assert {name: words for name, words in found.items() if words} == {}


def test_there_are_no_binaries_in_the_repository() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in files() if b"\0" in path.read_bytes()] == []


def test_every_link_between_the_documents_leads_somewhere() -> None:
    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
    pages = [path for path in files() if path.suffix == ".md"]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in link.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
