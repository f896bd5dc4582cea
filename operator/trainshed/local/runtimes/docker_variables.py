"""How docker and podman get the variables of a container without values in arguments, which every user can see.

Names go into the arguments. Values go into a file that has no name, as `--env-file`, or into the environment of the
program where that format cannot have them: quotes and ends of lines mean something else to each version. The program
and what it starts read variables themselves, and the author of a job must not reach the program: those are only
passed in the file. A list of the variables that may be passed is not possible, because an author may choose any name:
JSON, keys and scripts have quotes and several lines.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from typing import IO

from .protocol import StartFailed

#: The standard input of the program, which has the file.
FILE = "/dev/stdin"
#: The names and values that every version of both programs reads from a file as they are, and the most bytes of a line.
NAME, PLAIN, LONGEST = (
    re.compile(r"[A-Za-z0-9_.-]+"),
    re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff\"'`#\\]*"),
    32_000,
)
#: The other names that Kubernetes accepts. At its end a * would stand for all variables that begin so.
SPECIAL = re.compile(r"[ -<>-~]*[!-)+-<>-~]")
#: Variables of the two programs, of what they start, and of the loader, the C library, shells and interpreters.
OWN = re.compile(
    r"_*(?:LD|DYLD|LC|XDG|DOCKER|BUILDKIT|BUILDX|COMPOSE|MOBY|PODMAN|CONTAINERS?|CONMON|CRUN|RUNC|BUILDAH|NETAVARK|CNI"
    r"|DBUS|SYSTEMD|NOTIFY|LISTEN|KRB5|GSS|NSS|GCONV|GLIBC|MALLOC|OTEL|BASH)(?:_.*)?"
    r"|(?:BASH|PYTHON|PERL|MALLOC).*|.*_PROXY"
    r"|SSH_(?:AUTH_SOCK|ASKPASS.*|SK_.*)|SSL_CERT_(?:FILE|DIR)|OPENSSL_(?:CONF|ENGINES|MODULES)|REGISTRY_AUTH_FILE"
    r"|STORAGE_(?:DRIVER|OPTS)|GO(?:DEBUG|TRACEBACK|MAXPROCS|GC|MEMLIMIT|COVERDIR)"
    r"|PATH|HOME|USER|LOGNAME|SHELL|SHELLOPTS|ENV|IFS|CDPATH|PWD|OLDPWD|PS4|TMP|TEMP|TMPDIR|TZ|TZDIR|TERM|LANG|LANGUAGE"
    r"|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|LOCALDOMAIN",
    re.IGNORECASE,
)


def passed(variables: Mapping[str, str], program: str) -> tuple[list[str], IO[bytes], dict[str, str]]:
    """Return the options, the file, and the variables of the program; raises `StartFailed`."""
    options: list[str] = []
    lines: list[bytes] = []
    own: dict[str, str] = {}
    for name, value in variables.items():
        line = f"{name}={value}\n".encode(errors="surrogatepass")  # PLAIN has no surrogates
        plain = NAME.fullmatch(name) and PLAIN.fullmatch(value) and value == value.strip()
        if plain and len(line) <= LONGEST:
            lines.append(line)
        elif SPECIAL.fullmatch(name) and not OWN.fullmatch(name.strip()):
            options += ["--env", name]
            own[name] = value
        else:
            raise StartFailed(
                f"{program} cannot get the variable {name}, which it may read itself, with quotes, backslashes, #, ends"
                f" of lines or more than {LONGEST} bytes; write it to a file in a ConfigMap or Secret instead"
            )
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(b"".join(lines))
    file.seek(0)
    return ["--env-file", FILE, *options], file, own
