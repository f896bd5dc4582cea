"""Which addresses messages are sent to: those of the Internet, and others only if they are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Networks that are not of the Internet although Python's `is_global` says so in some or all versions: the metadata and
#: other services of Azure and Oracle, local NAT64 (RFC 8215), site-local addresses (RFC 3879), and addresses with an
#: IPv4 address in them that tunnels deliver to: IPv4-compatible, Teredo, 6to4.
NOT_GLOBAL: tuple[Network, ...] = (
    *map(IPv4Network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")),
    *map(IPv6Network, ("::/96", "64:ff9b:1::/48", "fec0::/10", "2001::/32", "2002::/16")),
)
#: What NAT64 makes of an IPv4 address (RFC 6052): the translator connects to the address in the last 32 bits.
NAT64 = IPv6Network("64:ff9b::/96")


def may_connect(text: str, allowed: Sequence[Network]) -> bool:
    """Return whether messages may be sent to an address, in any form that a resolver gives."""
    address = _meant(ip_address(text.partition("%")[0]))
    return is_listed(address, allowed) or _is_global(address)


def is_listed(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether an address is in one of the networks."""
    return any(address in network for network in networks if network.version == address.version)


def is_allowed(text: str, allowed: Sequence[Network]) -> bool:
    """Return whether an address is one that was allowed, and not only one of the Internet."""
    return is_listed(_meant(ip_address(text.partition("%")[0])), allowed)


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks in CIDR notation; raises ValueError."""
    return tuple(map(ip_network, texts))


def _meant(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else address


def _is_global(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not is_listed(address, NOT_GLOBAL)
