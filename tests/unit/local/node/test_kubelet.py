"""The kubelet of a local run starts, restarts and ends containers, and writes statuses, as a real one does."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta

import pytest

from support.scripted_runtime import ScriptedRuntime
from support.virtual_time import now
from trainshed.local.node.images import Images
from trainshed.local.node.pod_worker import BackOff
from trainshed.local.runtimes.protocol import StartFailed
from trainshed.local.stored_objects import CONFIG_MAP, POD, timestamp

from .local_node import PODS, Node, play, pod_of


def test_a_pod_runs_and_succeeds(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        pod = pod_of(node.pod())
        assert (pod.phase, pod.ready, pod.node) == ("Running", True, "node")
        assert node.pod()["status"]["podIP"] == "198.18.0.9"
        await node.end(0)
        pod = pod_of(node.pod())
        assert (pod.phase, pod.ready, pod.containers[0].exit_code) == ("Succeeded", False, 0)
        assert node.runtime.removed == ["pod"]

    play(tmp_path, test)


def test_the_last_lines_of_a_failure_are_its_message(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"], "terminationMessagePolicy": "FallbackToLogsOnError"})
        await node.end(3, "line\n" * 1000 + "oh no")
        ended = node.state()["state"]["terminated"]
        assert ended["exitCode"] == 3
        assert ended["message"].endswith("line\noh no")
        assert ended["message"].count("\n") == 79
        assert node.logs.text.endswith(b"oh no")

    play(tmp_path, test)


class Puller:
    """Implements `trainshed.local.node.images.ImagePuller`; pulls one image until a test says how that ends."""

    def __init__(self) -> None:
        self.missing = ["other"]
        self.over, self.problem = asyncio.Event(), ""

    async def pull(self) -> None:
        await self.over.wait()
        if self.problem:
            raise StartFailed(self.problem)


@pytest.mark.parametrize("end", ["pulled", "deleted", "failed", "interrupted"])
def test_a_pod_waits_until_all_images_are_pulled(tmp_path, end):
    puller = Puller()
    images = Images(puller)

    async def test(node: Node) -> None:
        ended = asyncio.Event()
        getting = asyncio.create_task(images.get(ended))
        await node.create({"image": "other"}, {"name": "beside"})
        await asyncio.sleep(30)
        waiting = [one["state"]["waiting"] for one in node.pod()["status"]["containerStatuses"]]
        assert {one["reason"] for one in waiting} == {"ContainerCreating"}
        said = [one["message"] for one in waiting]
        assert said == ["waits until image other is pulled", "waits until the images of all replicas are here"]
        assert (pod_of(node.pod()).node, node.runtime.started) == ("node", [])
        if end == "deleted":
            node.delete()
            await asyncio.sleep(0.1)
            assert node.cluster.find(POD, "ml", "pod") is None
        if end == "failed":
            puller.problem = "no such image"
            puller.over.set()
            with pytest.raises(StartFailed, match="no such image"):
                await getting
        elif end == "interrupted":
            ended.set()
            await getting
        else:
            puller.over.set()
            await getting
        await asyncio.sleep(0.1)
        assert len(node.runtime.started) == (2 if end == "pulled" else 0)

    play(tmp_path, test, images=images)


def test_a_termination_log_comes_before_the_output(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"], "terminationMessagePolicy": "FallbackToLogsOnError"})
        (mount,) = node.runtime.started[0].spec.mounts
        assert mount.target == "/dev/termination-log"
        mount.source.write_text("the loss is nan")
        await node.end(1, "something else")
        assert node.state()["state"]["terminated"]["message"] == "the loss is nan"

    play(tmp_path, test)


@pytest.mark.parametrize("trick", ["link", "pipe", "folder", "huge"])
def test_a_termination_log_that_is_no_file_is_not_read(tmp_path, trick):
    (tmp_path / "secret").write_text("precious")

    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, policy="OnFailure")
        log = node.runtime.started[0].spec.mounts[-1].source
        if trick == "huge":
            os.truncate(log, 1 << 40)
        else:
            log.unlink()
            make = {"link": lambda: log.symlink_to(tmp_path / "secret"), "pipe": lambda: os.mkfifo(log)}
            make.get(trick, log.mkdir)()
        await node.end(1)
        assert len(node.state()["lastState"]["terminated"].get("message", "")) == (4096 if trick == "huge" else 0)
        assert node.state()["restartCount"] == 1
        assert log.is_file()
        assert not log.is_symlink()

    play(tmp_path, test)
    assert (tmp_path / "secret").read_text() == "precious"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o644


def test_a_termination_log_is_mounted_below_the_root_of_its_container(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"], "terminationMessagePath": "../../../../log"})
        assert node.runtime.started[0].spec.mounts[0].target == "/log"

    play(tmp_path, test)


def test_a_failing_container_is_restarted_with_a_growing_back_off(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, policy="OnFailure")
        await node.end(1)
        assert node.state()["restartCount"] == 1, "the first restart is immediate"
        await node.end(1)
        assert node.state()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert node.state()["lastState"]["terminated"]["exitCode"] == 1
        assert pod_of(node.pod()).phase == "Running"
        await asyncio.sleep(9.5)
        assert node.state()["restartCount"] == 1
        await asyncio.sleep(1)
        assert node.state()["restartCount"] == 2
        await node.end(0)
        assert pod_of(node.pod()).phase == "Succeeded"

    play(tmp_path, test)


def test_back_off_doubles_up_to_its_limit():
    assert [BackOff().delay(number) for number in (0, 1, 2, 3, 6, 50)] == [0, 10, 20, 40, 300, 300]


def test_a_new_pod_waits_until_nothing_is_left_of_the_one_that_had_its_name(tmp_path):
    gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}

    async def test(node: Node) -> None:
        await node.create(gpu)
        await node.end(1)
        node.delete()
        assert node.cluster.find(POD, "ml", "pod") is None, "an API server waits for no pod that has finished"
        await node.create(gpu)
        assert (len(node.runtime.started), node.runtime.removed) == (1, [])
        assert node.kubelet.running() == ["pod", "pod"]
        await asyncio.sleep(5)
        assert [container.spec.gpus for container in node.runtime.started] == ["0", "0"]
        assert node.kubelet.running() == ["pod"]

    play(tmp_path, test, ScriptedRuntime(removal=5), gpus=(0,))


def test_a_pod_that_is_deleted_while_it_waits_for_another_one_never_starts(tmp_path):
    async def test(node: Node) -> None:
        await node.create({})
        await node.end(1)
        node.delete()
        await node.create({})
        node.delete()
        await asyncio.sleep(1)
        assert node.cluster.find(POD, "ml", "pod") is None
        await asyncio.sleep(10)
        assert len(node.runtime.started) == 1
        assert node.kubelet.running() == []

    play(tmp_path, test, ScriptedRuntime(removal=5))


def test_a_deleted_pod_gets_its_grace_period(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, terminationGracePeriodSeconds=5)
        node.delete()
        await asyncio.sleep(4.5)
        assert node.runtime.started[0].signals == [signal.SIGTERM]
        await asyncio.sleep(1)
        assert node.runtime.started[0].signals[-1] == signal.SIGKILL
        assert node.cluster.find(POD, "ml", "pod") is None

    play(tmp_path, test, ScriptedRuntime(stubborn=True))


@pytest.mark.parametrize(("asked", "given"), [(10**12, 2**31 - 1), (2**63 - 1, 2**31 - 1), (-(2**63), 1)])
def test_a_grace_period_is_bounded(tmp_path, asked, given):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, terminationGracePeriodSeconds=asked)
        node.delete()
        assert pod_of(node.pod()).grace == given
        await asyncio.sleep(0.1)
        assert node.cluster.find(POD, "ml", "pod") is None

    play(tmp_path, test)


def test_a_second_deletion_shortens_the_grace_period(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, policy="Always")
        node.delete(30)
        await asyncio.sleep(1)
        node.delete(0)
        await asyncio.sleep(0.1)
        assert node.cluster.find(POD, "ml", "pod") is None
        assert len(node.runtime.started) == 1, "a pod that is deleted is not restarted"

    play(tmp_path, test, ScriptedRuntime(stubborn=True))


def test_a_pod_that_is_deleted_before_it_runs_disappears(tmp_path):
    async def test(node: Node) -> None:
        missing = [{"name": "v", "configMap": {"name": "nothing"}}]
        await node.create({"command": ["train"]}, volumes=missing)
        assert node.state()["state"]["waiting"] == {
            "reason": "CreateContainerConfigError",
            "message": 'configmap "nothing" not found',
        }
        node.delete()
        await asyncio.sleep(0.1)
        assert node.cluster.find(POD, "ml", "pod") is None

    play(tmp_path, test)


def test_a_program_that_does_not_exist_fails_the_pod(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        ended = node.state()["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
        assert "No such file" in ended["message"]
        assert pod_of(node.pod()).phase == "Failed"

    play(tmp_path, test, ScriptedRuntime(missing=("main",)))


def test_init_containers_run_first_one_after_another(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, initContainers=[{"name": "a"}, {"name": "b"}])
        assert [item.spec.name for item in node.runtime.started] == ["a"]
        assert pod_of(node.pod()).phase == "Pending"
        assert node.state()["state"]["waiting"]["reason"] == "PodInitializing"
        await node.end(0, container="a")
        await node.end(0, container="b")
        assert [item.spec.name for item in node.runtime.started] == ["a", "b", "main"]
        assert pod_of(node.pod()).phase == "Running"

    play(tmp_path, test)


def test_a_failed_init_container_fails_the_pod(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, initContainers=[{"name": "a"}])
        await node.end(2, container="a")
        assert pod_of(node.pod()).phase == "Failed"
        assert [item.spec.name for item in node.runtime.started] == ["a"]

    play(tmp_path, test)


def test_a_sidecar_ends_after_the_containers(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, initContainers=[{"name": "side", "restartPolicy": "Always"}])
        assert [item.spec.name for item in node.runtime.started] == ["side", "main"]
        await node.end(0)
        assert node.runtime.started[0].signals == [signal.SIGTERM]
        assert pod_of(node.pod()).phase == "Succeeded"

    play(tmp_path, test)


def test_a_pod_with_a_finalizer_stays_until_it_is_removed(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        finalizers = {"metadata": {"finalizers": ["trainshed.dev/job-tracking"]}}
        node.cluster.server.request("operator", "PATCH", f"{PODS}/pod", body=finalizers)
        node.delete(0)
        await asyncio.sleep(0.1)
        pod = pod_of(node.pod())
        assert (pod.phase, pod.grace) == ("Failed", 0)
        node.cluster.server.request("operator", "PATCH", f"{PODS}/pod", body={"metadata": {"finalizers": None}})
        assert node.cluster.find(POD, "ml", "pod") is None

    play(tmp_path, test)


def test_a_container_ends_when_the_runtime_says_so(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        running = node.runtime.running("pod", "main")
        assert running is not None
        running.ended_at = now() - timedelta(seconds=3)
        await node.end(137, after=5)
        ended = node.state()["state"]["terminated"]
        assert ended["finishedAt"] == timestamp(running.ended_at)

    play(tmp_path, test)


def test_a_changed_config_map_changes_in_the_volume(tmp_path):
    async def test(node: Node) -> None:
        node.cluster.apply(a_map(key="before"))
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/settings"}]}
        volume = [{"name": "v", "configMap": {"name": "settings"}}]
        await node.create({"command": ["train"], **mount}, volumes=volume)
        file = node.runtime.started[0].spec.mounts[0].source / "key"
        assert file.read_text() == "before"
        node.cluster.apply(a_map(key="after"))
        await asyncio.sleep(0.1)
        assert file.read_text() == "after"

    play(tmp_path, test)


def a_map(**data: str) -> dict:
    metadata = {"name": "settings", "namespace": "ml"}
    return {"apiVersion": "v1", "kind": CONFIG_MAP, "metadata": metadata, "data": data}


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("init", [False, True])
def test_a_container_waits_for_its_configuration_under_every_policy(tmp_path, policy, init):
    source = {"env": [{"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}}]}
    first = {"initContainers": [{"name": "first", **source}]} if init else {}

    async def test(node: Node) -> None:
        node.cluster.apply(a_map(other="1"))
        await node.create({"command": ["train"], **({} if init else source)}, policy=policy, **first)
        await asyncio.sleep(60)
        statuses = node.pod()["status"]["initContainerStatuses" if init else "containerStatuses"]
        said = {"reason": "CreateContainerConfigError", "message": "couldn't find key rate in ConfigMap ml/settings"}
        assert statuses[0]["state"]["waiting"] == said
        assert (pod_of(node.pod()).phase, statuses[0]["restartCount"], node.runtime.started) == ("Pending", 0, [])
        node.cluster.apply(a_map(rate="0.1"))
        await asyncio.sleep(2)
        (started,) = node.runtime.started
        assert started.spec.env == {"HOSTNAME": "pod", "RATE": "0.1"}

    play(tmp_path, test)


def test_a_part_of_a_volume_below_a_file_is_a_wrong_configuration(tmp_path):
    async def test(node: Node) -> None:
        node.cluster.apply(a_map(key="text"))
        mount = {"name": "v", "mountPath": "/v", "subPath": "key/below"}
        volume = {"name": "v", "configMap": {"name": "settings"}}
        await node.create({"command": ["train"], "volumeMounts": [mount]}, volumes=[volume])
        assert node.state()["state"]["waiting"]["reason"] == "CreateContainerConfigError"

    play(tmp_path, test)
