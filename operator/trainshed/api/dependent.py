"""What a job owns besides pods and Services: configuration, rights, an autoscaler, a group for the gang scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from .job import Document


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of dependent and where it lives; one that is `passing` is wanted only while the job has pods."""

    prefix: str
    plural: str
    kind: str
    passing: bool = False

    @property
    def api_version(self) -> str:
        """As in `apiVersion`."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


#: The kind in which gang schedulers group pods, whoever's API it is.
GROUP = "PodGroup"

CONFIG_MAPS = Resource("/api/v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts", "ServiceAccount")
ROLES = Resource("/apis/rbac.authorization.k8s.io/v1", "roles", "Role")
ROLE_BINDINGS = Resource("/apis/rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
AUTOSCALERS = Resource("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", passing=True)
VOLCANO_GROUPS = Resource("/apis/scheduling.volcano.sh/v1beta1", "podgroups", GROUP, passing=True)
COSCHEDULING_GROUPS = Resource("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", GROUP, passing=True)


@dataclass(frozen=True, slots=True)
class Wish:
    """A dependent as it is to be; `content` are its top-level fields besides the metadata.

    With `shared` somebody else's of that name will do as well.
    """

    resource: Resource
    name: str
    content: Document
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Dependent:
    """A dependent as it is; `job` is its label, `owner` the uid of its controller."""

    resource: Resource
    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    document: Document
    deleting: bool = False
