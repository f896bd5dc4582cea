"""The steps of a schedule that inject faults: at pods, nodes, the server, its watches, and the operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.pod_statuses import disrupted, ended, rejected, restarted, running
from trainshed.controller import orphans
from trainshed.memory.errors import StatusError

from .cluster import Cluster, OperatorProcess
from .network_faults import FaultyNetwork, WriteFault, error_end
from .nodes import NODES, Nodes, pod_path
from .schedule import Step
from .transport import StreamEnd, WatchStream

Object = dict[str, Any]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trainshed-system/leases/trainshed"
#: Seconds after which the client reopens a silent watch, and repeats a request without a response; and seconds that a
#: process may take to stop and start again.
SILENCE_TIMEOUT, REQUEST_RETRY, RESTART = 100.0, 40.0, 17.0


class Faults:
    """Executes the fault steps on a cluster; `handlers` are the steps by their word.

    After `stop` the cluster needs `settle_seconds` to recover. Watches may have been silent for `silence` seconds.
    """

    def __init__(self, cluster: Cluster, network: FaultyNetwork, nodes: Nodes) -> None:
        self._cluster = cluster
        self._network = network
        self._nodes = nodes
        self._paused: list[WatchStream] = []
        self.settle_seconds = self.silence = 0.0
        self.handlers: dict[str, Callable[[Step], None]] = {
            "succeed": lambda step: self._end_pod(step, 0),
            "fail": lambda step: self._end_pod(step, step.how),
            "oom": lambda step: self._end_pod(step, step.how, "OOMKilled"),
            "reject": lambda step: self._set_status(step, lambda _: rejected(step.how), "Pending", "Running"),
            "disrupt": self._disrupt,
            "restart container": lambda step: self._set_status(step, lambda pod: restarted(pod, step.how, self._now())),
            "not ready": lambda step: self._set_status(step, lambda pod: running(pod, self._now(), ready=False)),
            "lose node": lambda step: nodes.lose(NODES[step.which % len(NODES)]),
            "recover nodes": lambda _: nodes.recover(),
            "image error": lambda step: setattr(nodes, "image_error", step.how),
            "delay terminations": lambda step: nodes.delay_terminations(step.how),
            "fail write": self._fail_write,
            "fail record": lambda step: network.fail_record(WriteFault(step.how[1], step.how[0])),
            "outage": self._outage,
            "slow responses": lambda step: network.delay_responses(step.how),
            "break watch": lambda step: self._end_watch(step, StreamEnd(broken=True)),
            "compact": self._compact,
            "delay watches": self._delay_watches,
            "duplicate events": lambda _: network.duplicate_events(),
            "pause watch": self._pause_watch,
            "watch error": lambda step: self._end_watch(step, error_end(step.how)),
            "stale list": lambda step: network.serve_stale_lists(step.how),
            "kill": self._kill,
            "kill at write": lambda step: network.fail_write(step.how[0], WriteFault(step.how[1], kills=True)),
            "kill at record": lambda step: network.fail_record(WriteFault(step.how, kills=True)),
            "stop": self._stop_operator,
            "partition": self._partition,
            "step clock": self._step_clock,
            "freeze": self._freeze,
            "delete lease": lambda _: self._delete_lease(),
        }

    def stop(self) -> None:
        """End all faults; a watch that was paused stays silent until the client notices."""
        self._network.clear()
        self._nodes.end_faults()
        self._resume()
        for operator in self._cluster.operators:
            operator.thaw()
            if not operator.running:
                operator.start()

    def restart_later(self, operator: OperatorProcess, seconds: float) -> None:
        """Start an operator after some seconds, unless it is running by then.

        Another replica may wait for the Lease first, and searches for orphaned finalizers only periodically.
        """
        self.settle_seconds = max(self.settle_seconds, orphans.INTERVAL + 1)
        self._cluster.later(seconds, lambda: operator.running or operator.start())

    # ------------------------------------------------------------------------------------------------------------- pods

    def _end_pod(self, step: Step, code: int, reason: str = "") -> None:
        self._set_status(step, lambda pod: ended(pod, code, self._now(), reason))

    def _disrupt(self, step: Step) -> None:
        pod = self._set_status(step, lambda pod: disrupted(pod, step.how, self._now()), "Pending", "Running")
        if pod is None:
            return
        if step.which % 2:
            self._nodes.write(pod, ended(pod, 143, self._now()))
        else:
            self._ask("gc", "DELETE", pod_path(pod), {"preconditions": {"uid": pod["metadata"]["uid"]}})

    def _set_status(self, step: Step, status: Callable[[Object], Object], *phases: str) -> Object | None:
        pods = self._nodes.pods(*(phases or ("Running",)))
        if not pods:
            return None
        pod = pods[step.which % len(pods)]
        self._nodes.write(pod, status(pod))
        return pod

    # ----------------------------------------------------------------------------------------------- server and watches

    def _fail_write(self, step: Step) -> None:
        number, status, when = step.how
        self._network.fail_write(number, WriteFault(when, status))

    def _outage(self, step: Step) -> None:
        self._silence_for(step.how)
        self._network.stop_server(step.how)
        for stream in self._streams():
            stream.end(StreamEnd(broken=True))

    def _compact(self, _: Step) -> None:
        self._cluster.server.store.compact()
        self._network.injected["compact"] += 1
        for stream in self._streams():
            stream.end(StreamEnd(broken=True))

    def _delay_watches(self, step: Step) -> None:
        self.settle_seconds = max(self.settle_seconds, step.how)
        self._silence_for(step.how)
        self._network.delay_watches(step.how)

    def _end_watch(self, step: Step, end: StreamEnd) -> None:
        if streams := self._streams():
            self._network.injected["watch ended"] += 1
            streams[step.which % len(streams)].end(end)

    def _pause_watch(self, step: Step) -> None:
        if streams := self._streams():
            self._network.injected["half-open watch"] += 1
            self.settle_seconds = SILENCE_TIMEOUT
            self._silence_for(SILENCE_TIMEOUT)
            streams[step.which % len(streams)].pause()

    def _streams(self) -> list[WatchStream]:
        transports = [operator.transport for operator in self._cluster.operators]
        return [stream for transport in transports if transport for stream in transport.streams]

    # -------------------------------------------------------------------------------------------------------- operators

    def _kill(self, step: Step) -> None:
        operator = self._operator(step)
        if operator.running:
            self._network.injected["kill"] += 1
            operator.crash(lambda _: bool(step.which % 2))
            self.restart_later(operator, step.how)

    def _stop_operator(self, step: Step) -> None:
        operator = self._operator(step)
        if operator.running:
            self._network.injected["stop"] += 1
            self.settle_seconds = max(self.settle_seconds, RESTART)
            operator.stop().add_done_callback(lambda _: self.restart_later(operator, step.how))

    def _partition(self, step: Step) -> None:
        operator = self._operator(step)
        if operator.transport:
            self.settle_seconds = max(self.settle_seconds, REQUEST_RETRY)
            self._silence_for(REQUEST_RETRY)
            self._network.partition(operator.name, step.how)
            for stream in operator.transport.streams:
                if not stream.paused:
                    stream.pause()
                    self._paused.append(stream)
            self._cluster.later(step.how, self._resume)

    def _resume(self) -> None:
        paused, self._paused = self._paused, []
        for stream in paused:
            stream.resume()

    def _step_clock(self, step: Step) -> None:
        self._network.injected["step clock"] += 1
        self._operator(step).clock_skew = step.how

    def _freeze(self, step: Step) -> None:
        operator = self._operator(step)
        if operator.running:
            self._network.injected["freeze"] += 1
            self._silence_for(step.how)
            operator.on_freeze()
            operator.freeze()
            self._cluster.later(step.how, operator.thaw)

    def _delete_lease(self) -> None:
        self._network.injected["delete lease"] += 1
        self._ask("user", "DELETE", LEASE, {})

    def _silence_for(self, seconds: float) -> None:
        self.silence = max(self.silence, seconds)

    def _operator(self, step: Step) -> OperatorProcess:
        return self._cluster.operators[step.which % len(self._cluster.operators)]

    def _ask(self, actor: str, verb: str, path: str, body: Object) -> None:
        try:
            self._cluster.server.request(actor, verb, path, body=body)
        except StatusError:
            return  # it is gone

    def _now(self) -> float:
        return self._cluster.now()
