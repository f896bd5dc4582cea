"""Containers in Linux namespaces; used by the launcher, which is root of its own user namespace already."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .isolation import (
    NOT_STARTED,
    PR_SET_PDEATHSIG,
    Isolation,
    Message,
    Streams,
    execute,
    exit_code,
    fork,
    named,
    prctl,
    private,
    text_of,
)
from .process_tree import process_of

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x20000000,
    0x40000000,
)
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
#: The flags that a mount of another user namespace has and that a remount must repeat: nosuid, nodev, noexec.
LOCKED = 2 | 4 | 8
#: The bridge, and its address of Ethernet, which would change with the pods that come and go.
BRIDGE, MAC = "br0", "02:00:c6:12:00:01"
#: Folders that are empty at the start of a container, and its own.
OWN = ("tmp", "proc", "run")
#: Those that are empty but for what a container needs of this machine, such as the folder in which it starts.
EMPTY = ("/tmp", "/run", "/dev/shm")  # noqa: S108 # nosec B108
#: The largest folder in which a mount point can be made: each of its entries becomes a mount.
MAX_ENTRIES = 300
#: The links that a path may go through, as in Linux.
MOST_LINKS = 40
#: The signals that a container's first process gets from the launcher.
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

libc = ctypes.CDLL(None, use_errno=True)


class NamespaceIsolation(Isolation):
    """Each sandbox has a network, each container processes and mounts of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._sandboxes: dict[str, list[int]] = {}
        self._inits: dict[int, int] = {}
        self._links = 0
        mount("none", "/", "", MS_REC | MS_PRIVATE)
        # Not permitted in some containers; without the processes of this namespace no limit of memory would hold.
        mount("proc", "/proc", "proc", 0)

    def add(self, messages: Sequence[Message]) -> None:
        """Create the bridge, and the networks of pods, all at the same time; raises OSError."""
        pods = [message for message in messages if "hostname" in message]
        for bridge in messages:
            if bridge not in pods:
                address = f"{bridge['address']}/{bridge['prefix']}"
                ip(f"link set lo up\nlink add {BRIDGE} address {MAC} type bridge\naddr add {address} dev {BRIDGE}")
                ip(f"link set {BRIDGE} up")
        started = [(message, *self._begin(message)) for message in pods]
        commands = []
        for message, pid, link in started:
            _, descriptors, _, _ = socket.recv_fds(link, 1, 3)
            self._sandboxes[message["id"]] = private(descriptors)
            self._links += 1
            name = f"veth{self._links}"
            commands.append(f"link add {name} type veth peer name eth0 netns {pid}\n")
            commands.append(f"link set {name} master {BRIDGE}\nlink set {name} up\n")
        try:
            if commands:
                ip("".join(commands))
        finally:
            for _, _, link in started:
                link.send(b"x")
                link.close()
            statuses = [os.waitpid(pid, 0)[1] for _, pid, _ in started]
        if any(statuses):
            raise OSError(0, "cannot configure the network of the pod")

    def _begin(self, message: Message) -> tuple[int, socket.socket]:
        """Start the process that makes the network of a pod; return its pid, and a socket to it."""
        near, far = socket.socketpair()
        address = f"{message['address']}/{message['prefix']}"
        pid = fork_plain(lambda: join_network(far, message["hostname"], address))
        far.close()
        return pid, near

    def remove(self, known: str) -> None:
        """Close the namespaces of a sandbox; the kernel removes its network with its last process."""
        for descriptor in self._sandboxes.pop(known, ()):
            os.close(descriptor)

    def start(self, message: Message, streams: Streams) -> int:
        """Start a container; return the pid of its first process. Raises OSError."""
        reader, writer = os.pipe()
        with open(reader, "rb") as pipe:
            try:
                pid = fork(lambda: enter(self._sandboxes[message["sandbox"]], message, streams, writer))
            finally:
                os.close(writer)
            self._inits[pid] = int(pipe.read())
        return pid

    def target(self, pid: int) -> int:
        """Return the init process of a container, which forwards signals."""
        # When the container has ended, the pid of its init process may be another process's.
        return self._inits[pid] if process_of(pid) else pid

    def kill(self, pid: int) -> None:
        """Kill a container: with its init process the kernel kills all others."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.target(pid), signal.SIGKILL)

    def ended(self, pid: int) -> int:
        """Forget a container: the kernel has killed what was left."""
        self._inits.pop(pid, None)
        return 0

    def kill_left(self) -> frozenset[int]:
        """Do nothing: the kernel has killed what was left."""
        return frozenset()


def join_network(link: socket.socket, hostname: str, address: str) -> None:
    """Make the namespaces of a pod, pass them to the launcher, and configure the network once its link is there."""
    check(libc.unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC))
    socket.sethostname(hostname)
    descriptors = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in ("net", "uts", "ipc")]
    socket.send_fds(link, [b"x"], descriptors)
    link.recv(1)
    ip(f"link set lo up\naddr add {address} dev eth0\nlink set eth0 up\n")


def enter(namespaces: list[int], message: Message, streams: Streams, known: int) -> None:
    """Enter the namespaces of a pod, and start an init process in those of a container; wait for it and exit as it.

    Its pid, as the launcher knows it, is written to the descriptor `known`: not every kernel lists children in /proc.
    """
    for descriptor in namespaces:
        check(libc.setns(descriptor, 0))
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWPID))
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the container would go on without the one that reports its end
        try:
            build_root(message)
            run_init(message, streams)
        except (OSError, ValueError) as error:
            os.write(writer, f"{getattr(error, 'errno', 0)}\n{text_of(error)}".encode())
        finally:
            os._exit(NOT_STARTED)
    os.close(writer)
    with open(reader, "rb") as pipe:
        failed = pipe.read().decode()
    if failed:
        number, _, text = failed.partition("\n")
        raise OSError(int(number) if number.isdecimal() else 0, text)
    os.write(known, str(pid).encode())
    detach()
    _, status = os.waitpid(pid, 0)
    os._exit(exit_code(status))


def run_init(message: Message, streams: Streams) -> None:
    """Start the program as a child of this process, which reaps and forwards signals like an init system."""
    main = fork(lambda: execute(message, streams))
    for number in FORWARDED:
        signal.signal(number, lambda received, _: forward(main, received))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    detach()
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == main:
            os._exit(exit_code(status))


def forward(pid: int, number: int) -> None:
    """Send a signal to a process, if it still runs and belongs to the same user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def detach() -> None:
    """Close all descriptors: what reads from their other ends waits until the last one is closed."""
    signal.set_wakeup_fd(-1)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the list is closed already
            os.close(int(name))


def build_root(message: Message) -> None:
    """Mount the file system of a container: that of the machine, with folders of its own and the mounts of the pod."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    root = Path(message["root"])
    mount("tmpfs", str(root), "tmpfs", 0)
    for entry in os.scandir("/"):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry.path))
        elif entry.name in OWN or entry.name == "dev":
            target.mkdir(mode=0o777)
        else:
            bind(Path(entry.path), target)
    (root / "tmp").chmod(0o1777)
    mirror(Path("/dev"), root / "dev", skip=("shm",))
    (root / "dev/shm").mkdir(exist_ok=True)
    mount("tmpfs", str(root / "dev/shm"), "tmpfs", 0)
    mount("proc", str(root / "proc"), "proc", 0)
    for kept in sorted(message["keep"], key=lambda path: path.count("/")):
        if any(Path(kept).is_relative_to(folder) for folder in EMPTY):
            place(root, Path(kept), kept)
    writable: dict[Path, bool] = {}
    for source, target, read_only in sorted(message["mounts"], key=lambda item: item[1].count("/")):
        try:
            found = place(root, Path(source), target, writable)
        except OSError as error:
            raise named(error, f"cannot mount at {target}") from error
        writable[found] = not read_only
        if read_only:
            forbid_writing(found)
    for found in (found for found in writable if not writable[found]):
        forbid_writing(found)  # one with a mount point of another is in memory now
    os.chdir(root)
    mount(str(root), "/", "", MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def place(root: Path, source: Path, target: str, mounted: Mapping[Path, bool] | None = None) -> Path:
    """Bind a file or folder at a path of a container, and return where that is; raises OSError.

    A mount point that is missing is made: in a volume that the container can write, as in a cluster, and in memory
    where it would be in a folder of this machine. `mounted` are the volumes so far, and whether each can be written.
    """
    found = inside(root, target)
    if not found.exists():
        missing = found
        while not missing.parent.exists():
            missing = missing.parent
        above = [folder for folder in mounted or {} if missing.is_relative_to(folder)]
        in_volume = mounted[max(above, key=lambda folder: len(folder.parts))] if mounted and above else False
        if not in_volume and os.stat(missing.parent).st_dev != os.stat(root).st_dev:
            replace_by_mirror(missing.parent, target)
        found.parent.mkdir(parents=True, exist_ok=True)
    bind(source, found)
    return found


def inside(root: Path, target: str) -> Path:
    """Return the path below a root, without links, that a path means to a process whose root it is; raises OSError."""
    found, left, links = root, target.split("/")[::-1], 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            found = found.parent if found != root else root
        elif (found / name).is_symlink():
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, f"cannot mount at {target}: {os.strerror(errno.ELOOP)}")
            link = os.readlink(found / name)
            found = root if link.startswith("/") else found
            left += link.split("/")[::-1]
        else:
            found /= name
    return found


def forbid_writing(target: Path) -> None:
    """Make a mount read-only; raises OSError."""
    flags = os.statvfs(target).f_flag & LOCKED
    mount("none", str(target), "", MS_BIND | MS_REMOUNT | MS_RDONLY | flags)


def replace_by_mirror(folder: Path, target: str) -> None:
    """Replace a folder of the machine by one in memory with the same entries, in which mount points can be made."""
    entries = os.listdir(folder)
    if len(entries) > MAX_ENTRIES:
        raise OSError(0, f"cannot mount at {target}: {folder} has too many entries; mount it at another path")
    original = os.open(folder, os.O_PATH)
    mount("tmpfs", str(folder), "tmpfs", 0)
    mirror(Path(f"/proc/self/fd/{original}"), folder)
    os.close(original)


def mirror(source: Path, target: Path, skip: tuple[str, ...] = ()) -> None:
    """Bind each entry of a folder into another one."""
    for entry in os.scandir(source):
        if entry.name in skip:
            continue
        if entry.is_symlink():
            (target / entry.name).symlink_to(os.readlink(entry.path))
        else:
            with contextlib.suppress(FileNotFoundError):
                bind(Path(entry.path), target / entry.name)


def bind(source: Path, target: Path) -> None:
    """Bind a file or folder at a path, which is made if it does not exist."""
    if source.is_dir():
        target.mkdir(exist_ok=True)
    elif not target.exists():
        target.touch()
    mount(str(source), str(target), "", MS_BIND | MS_REC)


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """Mount a file system as the system call mount does; raises OSError."""
    if libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot mount {source} at {target}: {os.strerror(number)}")


def check(result: int) -> None:
    """Raise OSError if a call of the C library has failed."""
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def fork_plain(body: Callable[[], None]) -> int:
    """Run `body` in a child process that then exits; return its pid."""
    pid = os.fork()
    if not pid:
        try:
            body()
        except OSError:
            os._exit(1)
        finally:
            os._exit(0)
    return pid


def ip(commands: str) -> None:
    """Configure the network with the program ip; raises OSError."""
    reader, writer = os.pipe()
    os.write(writer, commands.encode())
    os.close(writer)
    actions = [(os.POSIX_SPAWN_DUP2, reader, 0)]
    pid = os.posix_spawnp("ip", ["ip", "-batch", "-"], os.environ, file_actions=actions)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(0, "ip failed: " + commands.replace("\n", "; "))
