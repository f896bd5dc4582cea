"""Everything there is of a kind, read once and never written: for whoever looks at a cluster without keeping up."""

from __future__ import annotations

from typing import TypeVar

from trainshed.api.job import Document

from . import Missing
from .lists import DOCUMENTS, Kind, pages
from .wire import Path, Wire

T = TypeVar("T")
CRDS = "/apis/apiextensions.k8s.io/v1"
APPS = "/apis/apps/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Census:
    """Reads lists; every verb may raise a `trainshed.cluster.ClusterError`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def all(self, path: Path, kind: Kind[T], label: str = "") -> list[T]:
        """All objects at `path`, with this label if one is named; none if the server does not know the kind."""
        selector = {"labelSelector": label} if label else {}
        try:
            return [kind.answer(item) async for page in pages(self._wire, path, selector) for item in page.items]
        except Missing:
            return []

    async def definitions(self) -> list[Document]:
        """All CustomResourceDefinitions."""
        return await self.all(Path(CRDS, "customresourcedefinitions"), DOCUMENTS)

    async def deployments(self) -> list[Document]:
        """All Deployments of all namespaces."""
        return await self.all(Path(APPS, "deployments"), DOCUMENTS)

    async def webhooks(self) -> list[Document]:
        """All ValidatingWebhookConfigurations."""
        return await self.all(Path(ADMISSION, "validatingwebhookconfigurations"), DOCUMENTS)
