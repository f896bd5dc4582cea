"""What befalls pods, nodes, the server, its watches, and the operators; each mishap is a word of a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainshed.controller import finalizers

from . import lives
from .answers import Refusal
from .fault_injector import Skies, Strike, ending
from .faults import Ending
from .kubelets import NODES, Kubelets
from .machine import Machine
from .schedule import Step
from .stage import Stage
from .transport import Feed

Object = dict[str, Any]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trainshed-system/leases/trainshed"
#: Seconds after which a watch that has gone silent is begun anew, and a request that nobody answers sent again; and
#: those that a process may take to end in good order and begin again.
SILENT, UNANSWERED, STOPPING = 100.0, 40.0, 17.0


class Mishaps:
    """Lets things happen to a stage; `heal` undoes what can be undone; for the rest it takes so much `patience`.

    For `deaf` seconds an operator may have heard of nothing at all.
    """

    def __init__(self, stage: Stage, skies: Skies, kubelets: Kubelets) -> None:
        self._stage = stage
        self._skies = skies
        self._kubelets = kubelets
        self._cut_off: list[Feed] = []
        self.patience = self.deaf = 0.0
        self.deeds: dict[str, Callable[[Step], None]] = {
            "succeed": lambda step: self._end(step, 0),
            "fail": lambda step: self._end(step, step.how),
            "oom": lambda step: self._end(step, step.how, "OOMKilled"),
            "reject": lambda step: self._pod(step, lambda _: lives.rejected(step.how), "Pending", "Running"),
            "disrupt": self._disrupt,
            "restart in place": lambda step: self._pod(step, lambda pod: lives.restarted(pod, step.how, self._now())),
            "unready": lambda step: self._pod(step, lambda pod: lives.running(pod, self._now(), ready=False)),
            "lose node": lambda step: kubelets.lose(NODES[step.which % len(NODES)]),
            "find node": lambda _: kubelets.find(),
            "stall": lambda step: setattr(kubelets, "stall", step.how),
            "deaf kubelet": lambda step: kubelets.be_deaf(step.how),
            "answer": self._answer,
            "outage": self._outage,
            "slow": lambda step: skies.slow(step.how),
            "cut": lambda step: self._feed(step, Ending(broken=True)),
            "expire": self._expire,
            "delay": self._delay,
            "repeat": lambda _: skies.repeat(),
            "hold": self._hold,
            "error": lambda step: self._feed(step, ending(step.how)),
            "old list": lambda step: skies.behind(step.how),
            "kill": self._kill,
            "die at": lambda step: skies.strike(step.how[0], Strike(step.how[1], kills=True)),
            "stop": self._stop,
            "partition": self._partition,
            "leap": self._leap,
            "freeze": self._freeze,
            "usurp": lambda _: self._usurp(),
        }

    def heal(self) -> None:
        """Everything is well again; a watch that was held stays silent until somebody notices."""
        self._skies.clear()
        self._kubelets.heal()
        self._release()
        for machine in self._stage.machines:
            machine.thaw()
            if not machine.runs:
                machine.start()

    def revive(self, machine: Machine, seconds: float) -> None:
        """Start a machine again in so many seconds, if nobody has done so by then.

        Another may have to wait for its Lease first, and then looks for held pods only now and then.
        """
        self.patience = max(self.patience, finalizers.INTERVAL + 1)
        self._stage.later(seconds, lambda: machine.runs or machine.start())

    # Pods -----------------------------------------------------------------------------------------------------------

    def _end(self, step: Step, code: int, reason: str = "") -> None:
        self._pod(step, lambda pod: lives.ended(pod, code, self._now(), reason))

    def _disrupt(self, step: Step) -> None:
        pod = self._pod(step, lambda pod: lives.disrupted(pod, step.how, self._now()), "Pending", "Running")
        if pod is None:
            return
        if step.which % 2:
            self._kubelets.write(pod, lives.ended(pod, 143, self._now()))
        else:
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            self._ask("gc", "DELETE", path, {"preconditions": {"uid": meta["uid"]}})

    def _pod(self, step: Step, status: Callable[[Object], Object], *phases: str) -> Object | None:
        found = self._kubelets.pods(*(phases or ("Running",)))
        if not found:
            return None
        pod = found[step.which % len(found)]
        self._kubelets.write(pod, status(pod))
        return pod

    # The server and its watches -------------------------------------------------------------------------------------

    def _answer(self, step: Step) -> None:
        which, status, when = step.how
        self._skies.strike(which, Strike(when, status))

    def _outage(self, step: Step) -> None:
        self._deafen(step.how)
        self._skies.out(step.how)
        for feed in self._feeds():
            feed.end(Ending(broken=True))

    def _expire(self, _: Step) -> None:
        self._stage.server.storage.compact()
        self._skies.done["expire"] += 1
        for feed in self._feeds():
            feed.end(Ending(broken=True))

    def _delay(self, step: Step) -> None:
        self.patience = max(self.patience, step.how)
        self._deafen(step.how)
        self._skies.late(step.how)

    def _feed(self, step: Step, how: Ending) -> None:
        if feeds := self._feeds():
            self._skies.done["watch ended"] += 1
            feeds[step.which % len(feeds)].end(how)

    def _hold(self, step: Step) -> None:
        if feeds := self._feeds():
            self._skies.done["half-open watch"] += 1
            self.patience = SILENT
            self._deafen(SILENT)
            feeds[step.which % len(feeds)].hold()

    def _feeds(self) -> list[Feed]:
        return [feed for machine in self._stage.machines if machine.line for feed in machine.line.feeds]

    # Operators --------------------------------------------------------------------------------------------------------

    def _kill(self, step: Step) -> None:
        machine = self._machine(step)
        if machine.runs:
            self._skies.done["kill"] += 1
            machine.crash(lambda _: bool(step.which % 2))
            self.revive(machine, step.how)

    def _stop(self, step: Step) -> None:
        machine = self._machine(step)
        if machine.runs:
            self._skies.done["stop"] += 1
            self.patience = max(self.patience, STOPPING)
            machine.stop().add_done_callback(lambda _: self.revive(machine, step.how))

    def _partition(self, step: Step) -> None:
        machine = self._machine(step)
        if machine.line:
            self.patience = max(self.patience, UNANSWERED)
            self._deafen(UNANSWERED)
            self._skies.cut_off(machine.name, step.how)
            for feed in machine.line.feeds:
                if not feed.held:
                    feed.hold()
                    self._cut_off.append(feed)
            self._stage.later(step.how, self._release)

    def _release(self) -> None:
        cut_off, self._cut_off = self._cut_off, []
        for feed in cut_off:
            feed.release()

    def _leap(self, step: Step) -> None:
        self._skies.done["leap"] += 1
        self._machine(step).skew = step.how

    def _freeze(self, step: Step) -> None:
        machine = self._machine(step)
        if machine.runs:
            self._skies.done["freeze"] += 1
            self._deafen(step.how)
            machine.freeze()
            self._stage.later(step.how, machine.thaw)

    def _usurp(self) -> None:
        self._skies.done["usurp"] += 1
        self._ask("user", "DELETE", LEASE, {})

    def _deafen(self, seconds: float) -> None:
        self.deaf = max(self.deaf, seconds)

    def _machine(self, step: Step) -> Machine:
        return self._stage.machines[step.which % len(self._stage.machines)]

    def _ask(self, actor: str, verb: str, path: str, body: Object) -> None:
        try:
            self._stage.server.request(actor, verb, path, body=body)
        except Refusal:
            return  # it is gone

    def _now(self) -> float:
        return self._stage.now()
