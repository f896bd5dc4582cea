"""What is installed in a cluster: the chart, and all of it in one file for kubectl."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from charts.rendering import bare, is_hook
from charts.rendering import run as helm
from generate_manifests import text

from . import changelog
from .packages import uniform
from .repository import Release

NAMESPACE = "trainshed-system"
#: The place of an image's digest in the chart's values, and of the icon in the repository.
DIGEST, ICON = "  digest: ''\n", "docs/pictures/favicon.svg"


def annotations(version: str, image: str, url: str, entry: str) -> dict[str, str]:
    """Return the annotations by which Artifact Hub describes a chart (its page annotations/helm)."""
    links = [{"name": "documentation", "url": f"{url}/tree/v{version}/docs"}, {"name": "source", "url": url}]
    lists = {"links": links, "images": [{"name": "trainshed", "image": image}], "changes": changelog.changes(entry)}
    words = {"category": "ai-machine-learning", "license": "Apache-2.0", "operator": "true"}
    words["prerelease"] = "true" if "rc" in version else "false"
    words |= {name: yaml.safe_dump(value, sort_keys=False, width=120) for name, value in lists.items()}
    return {f"artifacthub.io/{name}": value for name, value in words.items()}


def chart(release: Release, image: tuple[str, str], url: str) -> Path:
    """Package the chart, which names its image by digest; `image` has its repository and its digest."""
    tree, version, target = release.tree, release.version, release.target
    folder = tree / "charts" / "trainshed"
    entry = changelog.entry((tree / "CHANGELOG.md").read_text(), version)
    repository, digest = image
    named = f"{repository}:{version}" + (f"@{digest}" if digest else "")
    about = yaml.safe_load((folder / "Chart.yaml").read_text())
    about |= {"home": url, "sources": [url], "icon": f"{url}/raw/v{version}/{ICON}"}
    # Semantic versions have a hyphen before what follows the number, Python's have none.
    about |= {"version": version.replace("rc", "-rc."), "appVersion": version}
    about["annotations"] = annotations(version, named, url, entry)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about, sort_keys=False, width=120))
    values = (folder / "values.yaml").read_text()
    if values.count(DIGEST) != 1:
        raise ValueError("values.yaml of the chart has no single place for the digest of the image")
    (folder / "values.yaml").write_text(values.replace(DIGEST, f"  digest: '{digest}'\n"))
    shutil.copy(tree / "LICENSE", folder)
    helm(4, "lint", "--strict", str(folder))
    helm(4, "package", str(folder), "--destination", str(target))
    (archive,) = target.glob("trainshed-*.tgz")
    uniform(archive, release.time)
    return archive


def manifests(tree: Path, archive: Path, target: Path) -> None:
    """Write install.yaml, with a namespace, the CRDs and the operator as the chart renders them, and crds.yaml."""
    rendered = helm(4, "template", "trainshed", str(archive), "--namespace", NAMESPACE, "--kube-version", "1.37.1")
    documents = [item for item in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if item and not is_hook(item)]
    crds = [bare(item) for item in documents if item["kind"] == "CustomResourceDefinition"]
    others = [bare(item) for item in documents if item["kind"] != "CustomResourceDefinition"]
    namespace = yaml.safe_load((tree / "manifests" / "base" / "namespace.yaml").read_text())
    (target / "crds.yaml").write_text(_plain(text(*crds)))
    (target / "install.yaml").write_text(_plain(text(namespace, *crds, *others)))


def _plain(documents: str) -> str:
    """Return documents without the note that they are generated in the repository."""
    return documents[documents.index("---") :]
