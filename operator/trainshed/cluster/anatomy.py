"""The parts of a pod that are ever decoded, as Kubernetes has them."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Ended(msgspec.Struct, gc=False, rename="camel"):
    """How a container has ended."""

    exit_code: int = 0
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Running(msgspec.Struct, gc=False, rename="camel"):
    """Since when a container runs."""

    started_at: datetime | None = None


class Waiting(msgspec.Struct, gc=False):
    """Why a container does not run yet."""

    reason: str | None = None
    message: str | None = None


class State(msgspec.Struct, gc=False):
    """The state of a container."""

    running: Running | None = None
    terminated: Ended | None = None
    waiting: Waiting | None = None


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    """The status of a container."""

    name: str = ""
    image: str = ""
    restart_count: int = 0
    state: State | None = None
    last_state: State | None = None


class PodCondition(msgspec.Struct, gc=False, rename="camel"):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ContainerSpec(msgspec.Struct, gc=False, rename="camel"):
    """Which container it is; an init container that always restarts is a sidecar (KEP-753)."""

    name: str = ""
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """Where a pod is, and the order of its containers."""

    node_name: str | None = None
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
