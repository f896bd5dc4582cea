"""The decoded fields of a pod; names and types are those of the Kubernetes API (core/v1)."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Ended(msgspec.Struct, gc=False, rename="camel"):
    """The terminated state of a container."""

    exit_code: int = 0
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Running(msgspec.Struct, gc=False, rename="camel"):
    """The running state of a container."""

    started_at: datetime | None = None


class Waiting(msgspec.Struct, gc=False):
    """The waiting state of a container."""

    reason: str | None = None
    message: str | None = None


class State(msgspec.Struct, gc=False):
    """The state of a container: one of the fields is set."""

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
    """The name and restart policy of a container; an init container with policy Always is a sidecar (KEP-753)."""

    name: str = ""
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """The node of a pod, and its containers in order."""

    node_name: str | None = None
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
