"""Lists of all objects of a kind, read once without a watch: for commands that do not run continuously."""

from __future__ import annotations

from typing import TypeVar

from trainshed.api.job import Document
from trainshed.cluster import Missing

from .lists import DOCUMENTS, Kind, pages
from .wire import Path, Wire

T = TypeVar("T")
CRDS = "/apis/apiextensions.k8s.io/v1"
APPS = "/apis/apps/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Census:
    """Reads lists; every method may raise a `trainshed.cluster.ClusterError`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def all(self, path: Path, kind: Kind[T], label: str = "") -> list[T]:
        """List the objects at `path`, with `label` if it is set; none if the server does not serve the kind."""
        selector = {"labelSelector": label} if label else {}
        try:
            return [kind.answer(item) async for page in pages(self._wire, path, selector) for item in page.items]
        except Missing:
            return []

    async def definitions(self) -> list[Document]:
        """List all CustomResourceDefinitions."""
        return await self.all(Path(CRDS, "customresourcedefinitions"), DOCUMENTS)

    async def deployments(self) -> list[Document]:
        """List the Deployments of all namespaces."""
        return await self.all(Path(APPS, "deployments"), DOCUMENTS)

    async def webhooks(self) -> list[Document]:
        """List all ValidatingWebhookConfigurations."""
        return await self.all(Path(ADMISSION, "validatingwebhookconfigurations"), DOCUMENTS)
