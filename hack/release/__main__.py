"""`python -m release VERSION`: make all files of a release in dist/."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import click

import krew
from testbed.places import ROOT
from testbed.steps import StepFailed, fail, step
from trainshed.manifests.writer import write

from . import changelog, cluster, image, packages, repository

URL = "https://github.com/trainshed/trainshed"
IMAGE = "ghcr.io/trainshed/trainshed"
#: The block of the commands' page that k9s reads.
K9S = re.compile(r"^## k9s\n.*?```yaml\n(plugins:\n.*?)```", re.MULTILINE | re.DOTALL)
#: What the page of a release says after its changes; `{files}` is where its files are.
INSTALL = """
## Install

```console
$ pip install trainshed=={version}   # for users; trainshed[ui] adds the page, trainshed[operator] the operator
$ helm upgrade --install trainshed {files}/{chart} --namespace trainshed-system --create-namespace
$ kubectl apply --server-side -f {files}/install.yaml   # the same without Helm
```

`SHA256SUMS` has the checksums of all files: [verify a release]({tree}/docs/operations.md#verify-a-release).
"""


@click.command()
@click.argument("version")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "dist", help="Folder of the files.")
@click.option("--root", type=click.Path(path_type=Path, exists=True), default=ROOT, help="The repository.")
@click.option(
    "--sboms", type=click.Path(path_type=Path, exists=True), default=ROOT / "build", help="Folder of the SBOMs."
)
@click.option(
    "--python", type=click.Path(path_type=Path), default=ROOT / ".venv-release/bin/python", help="Has `build`."
)
@click.option("--with-image/--without-image", default=True, help="Without, the chart names the image by its tag.")
@click.option("--with-plugin/--without-plugin", default=True, help="The archives for krew, which need many wheels.")
def main(
    *, version: str, out: Path, root: Path, sboms: Path, python: Path, with_image: bool, with_plugin: bool
) -> None:
    """Make all files of a release of the commit that is checked out, and tag it."""
    try:
        repository.check(root, version)
        repository.tagged(root, version)
        release = repository.begin(root, version)
    except repository.Refused as error:
        raise click.ClickException(str(error)) from error
    tree, target = release.tree, release.target
    with step("building the wheel and the source distribution"):
        wheel = packages.distributions(python.absolute(), release)
    digest = ""
    if with_image:
        digest = image.build(release)
        (target / "image-digest").write_text(f"{IMAGE}@{digest}\n")
        if (found := image.platforms(target / f"trainshed-{version}-image.tar")) != image.PLATFORMS:
            click.echo(f"the image is for {found} alone: {image.FOR_TRYING}", err=True)
    if with_plugin:
        with step("making the plugin of kubectl for each platform"):
            archives = packages.plugins(wheel, release)
        found = krew.manifest(version.replace("rc", "-rc."), f"{URL}/releases/download/v{version}", archives, URL)
        # krew wants a file that is named after the plugin.
        (target / "trainshed.yaml").write_text(write([found]))
    with step("packaging the chart and the manifests"):
        chart = cluster.chart(release, (IMAGE, digest), URL)
        cluster.manifests(tree, chart, target)
    texts(tree, version, chart.name, target)
    for name, bill in (("image", "sbom.json"), ("command", "sbom-command.json")):
        (target / f"trainshed-{version}-{name}.cdx.json").write_text(sbom(sboms / bill, version))
    names = sorted(path.name for path in target.iterdir())
    sums = "".join(f"{hashlib.sha256((target / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (target / "SHA256SUMS").write_text(sums)
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(target, out)
    click.echo("".join(f"{out.name}/{name}\n" for name in (*names, "SHA256SUMS")), nl=False)


def texts(tree: Path, version: str, chart: str, target: Path) -> None:
    """Write the notes of the release, and the file of plug-ins for k9s from the page that describes it."""
    place, files = f"{URL}/blob/v{version}", f"{URL}/releases/download/v{version}"
    said = changelog.notes((tree / "CHANGELOG.md").read_text(), version, place)
    (target / "NOTES.md").write_text(said + INSTALL.format(tree=place, files=files, version=version, chart=chart))
    block = K9S.search((tree / "docs" / "commands.md").read_text())
    if block is None:
        raise ValueError("docs/commands.md has no plug-ins for k9s")
    (target / "k9s-plugins.yaml").write_text(block[1])


def sbom(path: Path, version: str) -> str:
    """Return a bill of materials that says of which version it is."""
    bill = json.loads(path.read_text())
    component = bill["metadata"].setdefault("component", {"type": "application", "name": "trainshed"})
    component["version"] = version
    return json.dumps(bill, indent=1) + "\n"


if __name__ == "__main__":
    try:
        main()
    except StepFailed as error:
        sys.exit(fail(error))
