"""The objects that a job owns besides pods and Services: ConfigMaps, RBAC objects, an autoscaler, a PodGroup."""

from __future__ import annotations

from dataclasses import dataclass

from .job import Document


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of dependent and its path on the API server.

    A `passing` one exists only while the job may have pods; the others exist as long as the job.
    """

    prefix: str
    plural: str
    kind: str
    passing: bool = False

    @property
    def api_version(self) -> str:
        """The value of `apiVersion`."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


#: The kind in which all gang schedulers group pods; each has its own API group.
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
    """The desired state of a dependent; `content` are its top-level fields besides the metadata.

    With `shared` an object of that name that the job does not own is accepted too.
    """

    resource: Resource
    name: str
    content: Document
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Dependent:
    """The observed state of a dependent; `job` is its label, `owner` the uid of its controller."""

    resource: Resource
    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    document: Document
    deleting: bool = False
