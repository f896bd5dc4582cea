"""Which proxy of the environment leads to a server, by the rules of Go's httpproxy, which are those of kubectl.

Python's own (urllib.request) know no networks, ports and patterns in NO_PROXY, and no proxy without a scheme.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

#: The ports that a server has without one in its address.
PORTS = {"http": 80, "https": 443}


def proxy_of(server: str, environment: Mapping[str, str]) -> str:
    """Return the URL of the proxy by which a server is reached, empty without one.

    It is as the variable has it, with `http://` if it has no scheme, and perhaps no valid URL.
    """
    address = urlsplit(server)
    found = _variable(environment, f"{address.scheme}_proxy")
    if not found or _is_exempt(address, _variable(environment, "no_proxy")):
        return ""
    return found if "://" in found else f"http://{found}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    """Return a variable; its name in capitals comes first."""
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_exempt(address: SplitResult, listed: str) -> bool:
    """Return whether a server is on this machine, or on the list of NO_PROXY."""
    host = (address.hostname or "").rstrip(".")
    number = _number(host)
    if host == "localhost" or (number and number.is_loopback):
        return True
    port = str(address.port or PORTS.get(address.scheme, PORTS["https"]))
    return any(_matches(entry.strip().lower(), host, number, port) for entry in listed.split(","))


def _matches(entry: str, host: str, number: IPv4Address | IPv6Address | None, port: str) -> bool:
    """Return whether a server is what an entry means: `*`, a network, an address or a domain, with a port or without.

    `example.com` means its subdomains as well, `.example.com` and `*.example.com` these only.
    """
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        with suppress(ValueError):
            return number is not None and number in ip_network(entry, strict=False)
    name, wanted = _split(entry)
    if wanted not in ("", port):
        return False
    if exact := _number(name):
        return number == exact
    name = name.removeprefix("*")
    return bool(name) and (host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}"))


def _split(entry: str) -> tuple[str, str]:
    """Return the host of an entry without the brackets of IPv6, and its port, empty without one."""
    if _number(entry):
        return entry, ""
    host, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        host, port = entry, ""
    return host.removeprefix("[").removesuffix("]"), port


def _number(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is, None if it is a name."""
    with suppress(ValueError):
        return ip_address(host)
    return None
