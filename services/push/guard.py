"""The guard on Web Push's way out: a name is resolved once, and we connect to the addresses that were checked.

Endpoints come from strangers. Their form is checked before (shared/endpoint.py); here every address behind a name must
be one of the public internet, however it is dressed. Nobody asks the resolver again after that, so a name that changes
its mind gains nothing, and redirects are not followed.
"""

import ipaddress
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from shared.endpoint import EndpointRules
from shared.logs import get_logger

log = get_logger()

_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Of the public space: 6to4 and Teredo carry somebody's IPv4 address inside, the others are for documents and protocols.
_NOT_PUBLIC = [
    IPv6Network("2001::/23"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
]
_NOT_PUBLIC_V4 = [ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("192.88.99.0/24")]
"""For protocols (192.0.0.9 is whatever translates addresses next to us), and of old the relays of 6to4."""


class AddressRefused(OSError):
    """A name leads to an address that no push service has."""


def is_public(text: str) -> bool:
    """Whether ``text`` is an address on the public internet, and not a tunnel to one that is not."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return _is_public_v4(address) if isinstance(address, IPv4Address) else _is_public_v6(address)


def _is_public_v4(address: IPv4Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NOT_PUBLIC_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    if address in _NAT64:
        # What an IPv6-only network makes of IPv4 addresses: as good as the one inside.
        return _is_public_v4(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC)


class GuardedResolver(AbstractResolver):
    """Resolves a name through ``resolver`` and gives out its addresses only when every one of them is public."""

    def __init__(self, rules: EndpointRules, resolver: AbstractResolver | None = None) -> None:
        self._rules = rules
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses behind ``host``. Raises AddressRefused, or OSError when it cannot be resolved."""
        if self._resolver is None:
            self._resolver = ThreadedResolver()  # needs a running loop
        found = await self._resolver.resolve(host, port, family)
        if not self._rules.trusts(host, port):
            _check(host, found)
        return found

    async def close(self) -> None:
        """Give the resolver back."""
        if self._resolver is not None:
            await self._resolver.close()


def _check(host: str, found: Sequence[ResolveResult]) -> None:
    if not found or not all(is_public(one["host"]) for one in found):
        log.warning("push.address_refused", host=host)
        raise AddressRefused(f"{host} leads to an address that is not on the public internet")
