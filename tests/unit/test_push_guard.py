"""What Web Push never posts to: addresses dressed as push services, and names that lead somewhere else."""

import asyncio
import socket
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from services.push.guard import AddressRefused, GuardedResolver, is_public
from services.push.message import Letter
from services.push.roads import WebPushRoad
from services.push.signers import Signer
from services.push.webpush import Subscription, WebPushSender
from shared.content import PushContent
from shared.endpoint import EndpointRules, Pair, circuit_of, origin_of, parse_hosts, parse_pairs
from shared.store.ringing import TargetState
from shared.vapid import new_vapid_key
from shared.verdict import NoVerdict, Rejected, SenderBlocked, Verdict
from tests.fakes.webpush import Browser, webpush_peer

LIVING = [
    "https://fcm.googleapis.com/fcm/send/dHIoDxE7Hdg:APA91bH1Zj0kNa-_%31",
    "https://fcm.googleapis.com:443/wp/abc",
    "https://fcm.googleapis.com/preprod/wp/abc:APA91b",
    "https://jmt17.google.com/fcm/send/abc",
    "https://updates.push.services.mozilla.com/wpush/v1/gAAAAABl-_",
    "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABl-_=",
    "https://updates.push.services.mozilla.com/push/v5/gAAAAABl..x",
    "https://web.push.apple.com/QGuQyavXutnMH",
    "https://wns2-par02p.notify.windows.com/w/?token=BQYAAAC%2bx%2f..%2f",
]
HOSTILE = [
    "",
    "fcm.googleapis.com/wp/a",
    "//fcm.googleapis.com/wp/a",
    "http://fcm.googleapis.com/wp/a",
    "ftp://fcm.googleapis.com/wp/a",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https:/fcm.googleapis.com/wp/a",
    "https://fcm.googleapis.com",
    "https://fcm.googleapis.com:444/wp/a",
    "https://fcm.googleapis.com:80/wp/a",
    "https://fcm.googleapis.com:/wp/a",
    "https://fcm.googleapis.com:0443443/wp/a",
    "https://fcm.googleapis.com:00443/wp/a",
    "https://fcm.googleapis.com:0443/wp/a",
    "https://fcm.googleapis.com/v1/projects/campus/messages:send",
    "https://fcm.googleapis.com/",
    "https://fcm.googleapis.com/wp/",
    "https://fcm.googleapis.com/wpx/a",
    "https://fcm.googleapis.com//wp/a",
    "https://fcm.googleapis.com/WP/a",
    "https://fcm.googleapis.com/fcm/notification",
    "https://fcm.googleapis.com/wp/../v1/projects/campus/messages:send",
    "https://fcm.googleapis.com/wp/%2E%2e/v1/projects/campus/messages:send",
    "https://fcm.googleapis.com/wp/a%2f..%2f../v1/projects/campus/messages:send",
    "https://fcm.googleapis.com/wp/..;/v1/projects/campus/messages:send",
    "https://fcm.googleapis.com/wp/./a",
    "https://fcm.googleapis.com/wp/..",
    "https://jmt17.google.com/wp/a",
    "https://updates.push.services.mozilla.com/v1/webpush/campus/registration",
    "https://updates.push.services.mozilla.com/m/gAAAAABl",
    "https://web.push.apple.com/",
    "https://wns2-par02p.notify.windows.com/?token=BQYAAAC%2bx",
    "https://user@fcm.googleapis.com/wp/a",
    "https://fcm.googleapis.com@evil.example/wp/a",
    "https://user:pass@fcm.googleapis.com:443/wp/a",
    "https://fcm.googleapis.com./wp/a",
    "https://fcm..googleapis.com/wp/a",
    "https://.fcm.googleapis.com/wp/a",
    "https://FCM.googleapis.com/wp/a",
    "https://fcm.googleapis.com.evil.example/wp/a",
    "https://evilfcm.googleapis.com/wp/a",
    "https://fcm.googleapis.com%2eevil.example/wp/a",
    "https://fcm.googleapis.com\\@evil.example/wp/a",
    "https://evil.example/fcm.googleapis.com",
    "https://evil.example?https://fcm.googleapis.com/",
    "https://evil.example#.push.apple.com/",
    "https://push.apple.com/a",
    "https://evil-push.apple.com.example/a",
    "https://notify.windows.com/w/",
    "https://\uff46cm.googleapis.com/wp/a",
    "https://fcm.googleapis\u3002com/wp/a",
    "https://f\u0441m.googleapis.com/wp/a",
    "https://xn--fm-fsa.googleapis.com/wp/a",
    "https://localhost/wp/a",
    "https://127.0.0.1/wp/a",
    "https://127.1/wp/a",
    "https://2130706433/wp/a",
    "https://0x7f000001/wp/a",
    "https://0x7f.0.0.1/wp/a",
    "https://0177.0.0.1/wp/a",
    "https://017700000001/wp/a",
    "https://0/wp/a",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::1]/wp/a",
    "https://[::ffff:127.0.0.1]/wp/a",
    "https://[64:ff9b::7f00:1]/wp/a",
    "https://[2002:7f00:1::]/wp/a",
    "https://[fe80::1%25eth0]/wp/a",
    "https://fcm.googleapis.com/wp/a b",
    "https://fcm.googleapis.com/wp/\r\nHost: evil.example",
    "https://fcm.googleapis.com/wp/\x00",
    "https://fcm.googleapis.com/wp/a#fragment",
    " https://fcm.googleapis.com/wp/a",
    "https://fcm.googleapis.com/wp/a\n",
    "https://fcm.googleapis.com/" + "a" * 2048,
    f"https://{'a' * 64}.push.apple.com/a",
    f"https://{'a.' * 130}push.apple.com/a",
    "https://-a.push.apple.com/a",
    "https://a_b.push.apple.com/a",
]
PRIVATE = [
    "0.0.0.0",  # noqa: S104 - an address to refuse
    *("10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1"),
    *("192.0.0.1", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0"),
    *("fc00::1", "fd12::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8"),
    *("::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::"),
    *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "3fff::1", "100::1", "4000::1", "nonsense"),
]
PUBLIC = ["8.8.8.8", "142.250.74.202", "17.188.143.34", "2607:f8b0:4004:c07::5f", "2a00:1450:4001:82a::200a"]
CONTENT = PushContent("Booked", "See you", "en")


@pytest.mark.parametrize("endpoint", LIVING)
def test_the_push_services_of_browsers_are_known(endpoint: str) -> None:
    assert EndpointRules().problem(endpoint) is None


@pytest.mark.parametrize("endpoint", LIVING)
def test_a_push_service_without_a_subscription_is_told_how_its_paths_begin(endpoint: str) -> None:
    host = endpoint.removeprefix("https://").partition("/")[0].removesuffix(":443")
    problem = EndpointRules().problem(f"https://{host}/")
    assert problem is not None
    assert f"at {host} the path begins with /" in problem


@pytest.mark.parametrize("endpoint", HOSTILE)
async def test_an_endpoint_that_is_none_is_refused_before_anything_is_asked(endpoint: str) -> None:
    assert EndpointRules().problem(endpoint) is not None
    verdict, asked = await send(endpoint, ["8.8.8.8"])
    assert isinstance(verdict, Rejected)
    assert (verdict.code, verdict.target_dead, asked) == ("endpoint_refused", False, [])


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_but_one_of_the_public_internet_will_do(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_public_through_a_translator_too() -> None:
    assert all(is_public(address) for address in PUBLIC)
    assert is_public("64:ff9b::808:808")


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::1"], []]
)
async def test_a_name_that_leads_anywhere_else_is_not_connected_to(addresses: list[str]) -> None:
    verdict, asked = await send(LIVING[0], addresses)
    assert isinstance(verdict, NoVerdict)
    assert (verdict.handed_over, verdict.code, verdict.refused) == (False, "connect", False)
    assert "fcm.googleapis.com leads to an address that is not on the public internet" in str(verdict.error)
    assert asked == ["fcm.googleapis.com"]


async def test_a_name_that_changes_its_mind_is_refused_from_then_on() -> None:
    resolver = GuardedResolver(EndpointRules(), Names(["8.8.8.8"], ["127.0.0.1"], []))
    assert [one["host"] for one in await resolver.resolve("fcm.googleapis.com", 443)] == ["8.8.8.8"]
    with pytest.raises(AddressRefused):
        await resolver.resolve("fcm.googleapis.com", 443)


async def test_the_address_that_was_checked_is_the_one_connected_to_and_nobody_asks_again() -> None:
    async with webpush_peer() as peer:
        browser = peer.subscribe("firefox")
        browser.endpoint = f"http://push.example:{peer.port}/push/firefox"
        rules = EndpointRules(trusted=frozenset({Pair("push.example", peer.port)}))
        verdict, asked = await send(browser.endpoint, ["127.0.0.1"], ["192.0.2.1"], rules)
    # It speaks for another origin than the one it was signed for: refused, but by the right machine.
    assert isinstance(verdict, SenderBlocked)
    assert (asked, browser.post_count) == (["push.example"], 1)


async def test_an_endpoint_that_is_refused_says_nothing_of_its_host() -> None:
    within = timedelta(seconds=2)
    sender = WebPushSender(EndpointRules(), connections=1, within=within)
    road = WebPushRoad(sender, Signer(new_vapid_key(), "mailto:ops@campus.example"), within)
    living, refused = (TargetState(1, endpoint, None, False, "", "") for endpoint in (LIVING[0], f"{LIVING[0]}/../a"))
    assert (road.circuit(living), road.circuit(refused)) == ("webpush fcm.googleapis.com", None)


def test_trust_is_for_exactly_one_pair() -> None:
    rules = EndpointRules(trusted=parse_pairs("127.0.0.1:8443, [::1]:99"))
    assert rules.trusted == {Pair("127.0.0.1", 8443), Pair("[::1]", 99)}
    for endpoint in ("https://127.0.0.1:8443/p", "http://127.0.0.1:8443/p", "https://[::1]:99/p"):
        assert rules.problem(endpoint) is None
    for endpoint in (
        "https://127.0.0.1/p",
        "https://127.0.0.1:8444/p",
        "https://127.0.0.2:8443/p",
        "https://127.1:8443/p",
    ):
        assert rules.problem(endpoint) is not None
    assert rules.problem("http://fcm.googleapis.com/wp/a") is not None


def test_an_operator_may_add_hosts() -> None:
    rules = EndpointRules((*EndpointRules().hosts, *parse_hosts("push.example, *.up.example")))
    assert rules.problem("https://push.example/a") is None
    assert rules.problem("https://a.up.example/a") is None
    assert rules.problem("https://a.up.example/v1/a") is None
    assert rules.problem("https://a.up.example/a/../b") is not None
    assert rules.problem("https://up.example/a") is not None
    for text in ("http://push.example", "push", "*.*.example", "10.0.0.1"):
        with pytest.raises(ValueError, match="hosts' names"):
            parse_hosts(text)


def test_origin_and_circuit_are_those_of_the_host() -> None:
    assert origin_of("https://web.push.apple.com:443/a/b?c") == "https://web.push.apple.com"
    assert origin_of("http://127.0.0.1:8443/a") == "http://127.0.0.1:8443"
    assert (circuit_of("https://web.push.apple.com/a"), circuit_of("http://127.0.0.1:84/")) == (
        "web.push.apple.com",
        "127.0.0.1:84",
    )


class Names(AbstractResolver):
    """Every name leads to ``first``, and when it is asked for again to ``then``."""

    def __init__(self, first: Sequence[str], then: Sequence[str], asked: list[str]) -> None:
        self._first, self._then, self._asked = first, then, asked

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of the moment."""
        addresses = self._then if self._asked else self._first
        self._asked.append(host)
        return [
            ResolveResult(hostname=host, host=one, port=port, family=socket.AF_INET, proto=0, flags=0)
            for one in addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


async def send(
    endpoint: str, addresses: Sequence[str], then: Sequence[str] = (), rules: EndpointRules | None = None
) -> tuple[Verdict, list[str]]:
    """What became of one message, and which names were asked for."""
    asked: list[str] = []
    within = timedelta(seconds=2)
    sender = WebPushSender(
        rules or EndpointRules(),
        connections=1,
        within=within,
        resolver=lambda: Names(addresses, then or addresses, asked),
    )
    browser = Browser(endpoint)
    letter = Letter(CONTENT, uuid4(), 0)
    signer = Signer(new_vapid_key(), "mailto:ops@campus.example")
    async with asyncio.timeout(20):
        verdict = await sender.send(signer, Subscription(endpoint, browser.keys), letter, within, lambda: None)
    await sender.close()
    return verdict, asked
