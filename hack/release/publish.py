"""`python -m release.publish`: sign what is in dist/, and upload it to where users look for it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import click

from testbed.places import ROOT

from . import image

#: The environment that has twine.
PYTHON = ROOT / ".venv-release" / "bin" / "python"


def commands(dist: Path) -> list[list[str]]:
    """Return the commands that publish a folder: image and chart by digest, their signatures, and the release last.

    A later one fails if an earlier one has not worked, and each can be repeated but the last: where that has run, the
    release exists.
    """
    (archive,), (chart,) = dist.glob("trainshed-*-image.tar"), dist.glob("trainshed-*.tgz")
    distributions = sorted(str(path) for pattern in ("*.whl", "trainshed-*.tar.gz") for path in dist.glob(pattern))
    version = archive.name.removeprefix("trainshed-").removesuffix("-image.tar")
    name, _, digest = (dist / "image-digest").read_text().strip().partition("@")
    bundle = dist / "SHA256SUMS.sigstore.json"
    files = sorted(str(path) for path in dist.iterdir() if path.name != "NOTES.md" and path != bundle)
    return [
        ["skopeo", "copy", "--all", "--preserve-digests", f"oci-archive:{archive}", f"docker://{name}:{version}"],
        ["cosign", "sign", "--yes", f"{name}@{digest}"],
        ["helm", "push", str(chart), f"oci://{name.rpartition('/')[0]}/charts"],
        ["cosign", "sign-blob", "--yes", "--bundle", str(bundle), str(dist / "SHA256SUMS")],
        [str(PYTHON), "-m", "twine", "upload", "--non-interactive", "--skip-existing", *distributions],
        ["gh", "release", "create", f"v{version}", "--verify-tag", "--notes-file", str(dist / "NOTES.md"),
         *(["--prerelease"] if "rc" in version else []), *files, str(bundle)],
    ]  # fmt: skip


@click.command()
@click.option("--dist", type=click.Path(path_type=Path, exists=True), default=ROOT / "dist")
@click.option("--dry-run", is_flag=True, help="Print the commands, and run none.")
def main(dist: Path, dry_run: bool) -> None:
    """Publish a release."""
    (archive,) = dist.glob("trainshed-*-image.tar")
    if not dry_run and (found := image.platforms(archive)) != image.PLATFORMS:
        raise click.ClickException(f"{archive} is for {found} alone, and not for {image.PLATFORMS}")
    for command in commands(dist):
        click.echo(shlex.join(command))
        if not dry_run:
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
