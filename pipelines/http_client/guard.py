"""The guard: a filter of the IP addresses that a fetch may connect to."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The IANA special-purpose registries in words; the first match is the reason of a refusal.
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "a cloud's metadata address",
        ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"),
    ),
    ("an unspecified address", ("0.0.0.0/8", "::/128")),
    ("a loopback address", ("127.0.0.0/8", "::1/128")),
    ("a private address", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
    ("a shared address", ("100.64.0.0/10",)),
    ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
    ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
    ("a documentation address", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")),
    ("a tunnel address", ("2001::/32", "2002::/16", "64:ff9b:1::/48", "192.88.99.0/24")),
    ("a reserved address", ("192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4")),
    ("a reserved address", ("::/96", "100::/64", "2001::/23", "5f00::/16")),
)
_REFUSED: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind) for kind, networks in _KINDS for network in networks
)
# mapped, translated, by NAT64 and compatible: the last 32 bits are an IPv4 address
_WITH_EMBEDDED_IPV4 = tuple(map(ip_network, ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "::/96")))


ALL_NETWORKS = ("0.0.0.0/0", "::/0")
OWN_ENDPOINT = "an address of this service itself"
SPARK_PAGE_PORTS = range(24040, 24540)  # where drivers serve Spark's pages, which know no organizations


class GuardRefused(Exception):
    """The guard refuses a connection to the address."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} is {reason}, which pages are not fetched from")
        self._address = address
        self._reason = reason

    def describe_for(self, host: str) -> str:
        """Return the sentence for a request to `host`; it does not reveal the addresses of a name."""
        name = host.strip("[]")
        return str(self) if name == self._address else f"{name} has {self._reason}, which pages are not fetched from"


class Guard:
    """Refuse addresses that are not public, apart from those in `allow_networks` (CIDRs), and the service's own ports.

    `own_endpoints` are (host, port) pairs of the service, always refused, as are this machine's drivers.
    Raises ValueError for a malformed network.
    """

    def __init__(self, allow_networks: Iterable[str] = (), own_endpoints: Iterable[tuple[str, int]] = ()) -> None:
        self._allowed = tuple(_parse_network(text) for text in allow_networks)
        self._own_endpoints = tuple(own_endpoints)

    def check(self, address: str, port: int | None = None) -> None:
        """Raise GuardRefused unless the numeric `address` is allowed, and `port` at it none of the service's own."""
        if reason := self._find_reason(address):
            raise GuardRefused(address, reason)
        if any(port == own_port and _is_same_host(address, host) for host, own_port in self._own_endpoints):
            raise GuardRefused(address, OWN_ENDPOINT)
        if port in SPARK_PAGE_PORTS and _is_local(address):
            raise GuardRefused(address, OWN_ENDPOINT)

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the numeric addresses of a host, all of which are allowed; raise GuardRefused or OSError."""
        try:
            found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except UnicodeError as error:
            raise OSError(f"'{host}' is no host name") from error
        for address in found:
            self.check(address, port)
        return found

    def _find_reason(self, text: str) -> str | None:
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return "not an IP address"
        embedded = _get_embedded_ipv4(address)
        if self._allows(address) or (embedded and self._allows(embedded)):
            return None
        return (_find_kind(embedded) if embedded else None) or _find_kind(address)

    def _allows(self, address: Address) -> bool:
        return any(address in network for network in self._allowed)


def _parse_network(text: str) -> Network:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f"'{text}' is not a network such as 10.0.0.0/8 or fd00::/8") from None


def _is_same_host(address: str, host: str) -> bool:
    """Whether the numeric `address` is one of `host`, or both are addresses of this machine."""
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return address in found or (_is_local(address) and any(_is_local(each) for each in found))


def _is_local(address: str) -> bool:
    """Whether the numeric `address` belongs to this machine: a socket can be bound to it."""
    parsed = ip_address(address.partition("%")[0])
    parsed = _get_embedded_ipv4(parsed) or parsed
    if parsed.is_loopback or parsed.is_unspecified:
        return True
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(parsed), 0))
    except OSError:
        return False
    return True


def _find_kind(address: Address) -> str | None:
    return next((kind for network, kind in _REFUSED if address in network), None)


def _get_embedded_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 one."""
    if isinstance(address, IPv4Address) or int(address) < 2:
        return None
    if any(address in network for network in _WITH_EMBEDDED_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else None)
