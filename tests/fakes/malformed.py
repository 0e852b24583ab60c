"""Requests that hostile or clumsy clients send to POST /events, and what each must be told."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.ingest import body

JSON = {"Content-Type": "application/json"}
DEEP = 10_000


@dataclass(frozen=True)
class Malformed:
    """One request: what it must be answered with, and where its mistake is (None: nowhere in the body)."""

    name: str
    content: bytes
    status: int
    mistake: tuple[str, str] | None = None
    headers: dict[str, str] = field(default_factory=lambda: JSON)


def written(**changes: Any) -> bytes:
    """A good body with ``changes``, as bytes."""
    return json.dumps(body(**changes)).encode()


def without(name: str) -> bytes:
    """A good body that lacks a field."""
    return json.dumps({key: value for key, value in body().items() if key != name}).encode()


def raw(field_name: str, text: bytes | str) -> bytes:
    """A good body whose ``field_name`` is written as ``text``, be it JSON or not."""
    text = text.encode() if isinstance(text, str) else text
    return written(**{field_name: "@here@"}).replace(b'"@here@"', text)


def recipient(**fields: Any) -> bytes:
    """A good body with this recipient."""
    return written(recipient=fields)


GOOD = written()


def malformed() -> list[Malformed]:
    """Every one of them; their names differ."""
    return [*_unsound(), *_nested(), *_numbers(), *_characters(), *_shapes(), *_texts(), *_instants(), *_outside()]


def _unsound() -> Iterator[Malformed]:
    """What is no JSON."""
    texts = {
        "empty body": b"",
        "spaces only": b" \n\t ",
        "cut off": GOOD[:-5],
        "cut off in a text": GOOD[:30],
        "two documents": GOOD + GOOD,
        "something behind": GOOD + b";",
        "a comma too many": GOOD[:-1] + b",}",
        "single quotes": GOOD.replace(b'"', b"'"),
        "a bare word": b"hello",
        "a comment": b"/* hi */" + GOOD,
        "form data": b"event_type=booking_confirmed&payload=x",
        "XML": b"<event/>",
        "an unquoted key": GOOD.replace(b'"payload"', b"payload"),
        "a line break in a text": GOOD.replace(b"Algebra", b"Alg\nebra"),
        "an unknown escape": GOOD.replace(b"Algebra", b"Alg\\xebra"),
        "half an escape": GOOD.replace(b"Algebra", b"Alg\\u12"),
        "a leading zero": raw("payload", b'{"seats": 01}'),
        "a number without digits": raw("payload", b'{"seats": .}'),
        "a hexadecimal number": raw("payload", b'{"seats": 0x10}'),
        "Python's True": raw("payload", b'{"seats": True}'),
        "undefined": raw("payload", b'{"seats": undefined}'),
    }
    for name, content in texts.items():
        yield Malformed(name, content, 400, ("", "syntax"))


def _nested() -> Iterator[Malformed]:
    """Nesting, wherever it may be put."""
    arrays, objects = b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP
    for name in ("payload", "recipient", "event_type", "idempotency_key", "ref", "send_at", "surprise"):
        yield Malformed(f"arrays nested in {name}", raw(name, arrays), 400, ("", "too_deep"))
    yield Malformed("objects nested in payload", raw("payload", objects), 400, ("", "too_deep"))
    yield Malformed("nothing but nesting", arrays, 400, ("", "too_deep"))
    yield Malformed("nesting that never ends", b"[" * 200_000, 400, ("", "too_deep"))
    yield Malformed("nested one too deep", raw("payload", b"[" * 100 + b"]" * 100), 400, ("", "too_deep"))


def _numbers() -> Iterator[Malformed]:
    """Numbers that nothing can hold, and keys that stand twice."""
    for name, number, code in [
        ("1e999", "1e999", "number_out_of_range"),
        ("-1e999", "-1e999", "number_out_of_range"),
        ("five thousand digits", "9" * 5000, "number_out_of_range"),
        ("five thousand decimals", "0." + "1" * 5000, "number_out_of_range"),
        ("an endless exponent", "1e99999999999", "number_out_of_range"),
        ("NaN", "NaN", "not_a_number"),
        ("Infinity", "Infinity", "not_a_number"),
        ("-Infinity", "-Infinity", "not_a_number"),
    ]:
        content = raw("payload", f'{{"tags": [1, {{"deep": {number}}}]}}')
        yield Malformed(f"{name} in the payload", content, 400, ("/payload/tags/1/deep", code))
    yield Malformed("1e999 for an instant", raw("send_at", "1e999"), 400, ("/send_at", "number_out_of_range"))
    twice = {
        "a key twice": (GOOD[:-1] + b', "ref": "a", "ref": "b"}', "/ref"),
        "a key twice in the recipient": (raw("recipient", '{"id": "a", "id": "b"}'), "/recipient/id"),
        "a key twice in the payload": (raw("payload", '{"course": 1, "course": 1}'), "/payload/course"),
        "a key twice far down": (raw("payload", '{"tags": [{"a": {"b": 1, "b": 2}}]}'), "/payload/tags/0/a/b"),
        "a key twice, once escaped": (raw("payload", '{"course": 1, "c\\u006furse": 2}'), "/payload/course"),
        "the idempotency key twice": (GOOD[:-1] + b', "idempotency_key": "other"}', "/idempotency_key"),
    }
    for name, (content, pointer) in twice.items():
        yield Malformed(name, content, 400, (pointer, "duplicate_key"))


def _characters() -> Iterator[Malformed]:
    """Bytes that are no characters, and characters that cannot be stored."""
    yield Malformed("a byte order mark", b"\xef\xbb\xbf" + GOOD, 400, ("", "byte_order_mark"))
    yield Malformed("UTF-16", GOOD.decode().encode("utf-16"), 400, ("", "nul_character"))
    yield Malformed("Latin-1", GOOD.replace(b"Algebra", "Übung".encode("latin-1")), 400, ("", "not_utf8"))
    yield Malformed("an overlong NUL", GOOD.replace(b"Algebra", b"\xc0\x80"), 400, ("", "not_utf8"))
    yield Malformed("a surrogate in UTF-8", GOOD.replace(b"Algebra", b"\xed\xa0\x80"), 400, ("", "not_utf8"))
    yield Malformed("a cut character", GOOD.replace(b"Algebra", b"\xe2\x82"), 400, ("", "not_utf8"))
    yield Malformed("a raw NUL", GOOD.replace(b"Algebra", b"Alg\0bra"), 400, ("", "nul_character"))
    places: dict[str, tuple[dict[str, Any], str]] = {
        "a text": ({"payload": {"course": "a@b"}}, "/payload/course"),
        "a nested text": ({"payload": {"tags": [["a@b"]]}}, "/payload/tags/0/0"),
        "a recipient's id": ({"recipient": {"id": "a@b"}}, "/recipient/id"),
        "the idempotency key": ({"idempotency_key": "a@b"}, "/idempotency_key"),
        "the reference": ({"ref": "a@b"}, "/ref"),
    }
    for where, (changes, pointer) in places.items():
        for what, escape, code in [("NUL", "\\u0000", "nul_character"), ("half a pair", "\\ud83d", "lone_surrogate")]:
            content = written(**changes).replace(b"a@b", f"a{escape}b".encode())
            yield Malformed(f"{what} in {where}", content, 400, (pointer, code))
    yield Malformed("half a pair in a key", written(payload={"a\udc00": 1}), 400, ("/payload/a?", "lone_surrogate"))


def _shapes() -> Iterator[Malformed]:
    """Sound JSON of the wrong type, at every level."""
    for name, content in [("an array", b"[1, 2]"), ("a text", b'"x"'), ("a number", b"7"), ("null", b"null")]:
        yield Malformed(f"{name} for a body", content, 422, ("", "type"))
    wrong: dict[str, list[Any]] = {
        "event_type": [7, True, ["x"], {"x": 1}],
        "recipient": [26, "bob", ["bob"], True],
        "payload": ["x", [1], 7, False],
        "idempotency_key": [7, ["x"], {}],
        "ref": [7, {"x": 1}],
        "send_at": [1700000000, True, ["2026-12-01T14:00:00Z"]],
        "expires_at": [1.5, {}],
    }
    for name, values in wrong.items():
        for value in values:
            content = written(**{name: value})
            yield Malformed(f"{name} is {json.dumps(value)}", content, 422, (f"/{name}", "type"))
    for name in ("id", "name", "email", "locale", "timezone"):
        content = recipient(**({"id": "bob"} | {name: ["x"]}))
        yield Malformed(f"an array for the recipient's {name}", content, 422, (f"/recipient/{name}", "type"))
    for name in ("event_type", "recipient", "payload", "idempotency_key"):
        yield Malformed(f"no {name}", without(name), 422, (f"/{name}", "missing"))
        yield Malformed(f"{name} is null", written(**{name: None}), 422, (f"/{name}", "missing"))
    yield Malformed("a recipient without id", recipient(email="a@b.de"), 422, ("/recipient/id", "missing"))
    yield Malformed("a recipient whose id is null", recipient(id=None), 422, ("/recipient/id", "missing"))
    yield Malformed("an unknown field", written(recipent={}), 422, ("/recipent", "unknown_field"))
    yield Malformed("an unknown null", written(surprise=None), 422, ("/surprise", "unknown_field"))
    yield Malformed("a field of Python's", written(__class__="x"), 422, ("/__class__", "unknown_field"))
    yield Malformed("a field with a slash", written(**{"a/b~": 1}), 422, ("/a~1b~0", "unknown_field"))
    content = recipient(id="b", mail="x")
    yield Malformed("an unknown field of the recipient", content, 422, ("/recipient/mail", "unknown_field"))
    content = written(payload={"course": "x", "cuorse": "y"})
    yield Malformed("an unknown field of the payload", content, 422, ("/payload/cuorse", "unknown_field"))
    yield Malformed("a payload against its schema", written(payload={"course": 5}), 422, ("/payload/course", "invalid"))
    yield Malformed("a payload without what it must have", written(payload={}), 422, ("/payload/course", "missing"))
    content = written(payload={"course": "x", "seats": 10**300})
    yield Malformed("a number beyond its schema", content, 422, ("/payload/seats", "invalid"))
    content = written(event_type="booking_confirmd")
    yield Malformed("a misspelt event type", content, 422, ("/event_type", "unknown_event_type"))
    content = written(event_type="Booking_Confirmed")
    yield Malformed("an event type in capitals", content, 422, ("/event_type", "unknown_event_type"))
    yield Malformed("an empty event type", written(event_type=""), 422, ("/event_type", "unknown_event_type"))


def _texts() -> Iterator[Malformed]:
    """Texts that are too short, too long, or not what they claim to be."""
    yield Malformed("an empty key", written(idempotency_key=""), 422, ("/idempotency_key", "too_short"))
    yield Malformed("a key of 256", written(idempotency_key="k" * 256), 422, ("/idempotency_key", "too_long"))
    yield Malformed("an empty reference", written(ref=""), 422, ("/ref", "too_short"))
    yield Malformed("a reference of 256", written(ref="r" * 256), 422, ("/ref", "too_long"))
    yield Malformed("an empty recipient", recipient(id=""), 422, ("/recipient/id", "too_short"))
    yield Malformed("a recipient's id of 256", recipient(id="b" * 256), 422, ("/recipient/id", "too_long"))
    yield Malformed("an empty name", recipient(id="b", name=""), 422, ("/recipient/name", "too_short"))
    yield Malformed("a name of 201", recipient(id="b", name="n" * 201), 422, ("/recipient/name", "too_long"))
    for address in [
        "",
        "bob",
        "@example.com",
        "bob@",
        "a@b.de,c@d.de",
        "a@b.de c@d.de",
        "a@b.de; c@d.de",
        "Bob <bob@example.com>",
        "bob@example.com\r\nBcc: eve@example.com",
        "bob@exa mple.com",
        "b" * 250 + "@example.com",
        "bøb@example.com",
    ]:
        content = recipient(id="b", email=address)
        yield Malformed(f"the address {address[:30]!r}", content, 422, ("/recipient/email", "address"))
    for locale in ["", "xx-YY", "english", "../../etc/passwd", "en_US.UTF-8; rm", "e" * 500]:
        content = recipient(id="b", locale=locale)
        yield Malformed(f"the locale {locale[:30]!r}", content, 422, ("/recipient/locale", "locale"))
    for zone in ["", "Mars/Dune", "../../../etc/passwd", "/etc/localtime", "Europe/Berlin/", "Europe"]:
        content = recipient(id="b", timezone=zone)
        yield Malformed(f"the time zone {zone[:30]!r}", content, 422, ("/recipient/timezone", "timezone"))


def _instants() -> Iterator[Malformed]:
    """Instants that are none, or none that could be kept."""
    for text in [
        "",
        "now",
        "tomorrow",
        "1700000000",
        "2026-12-01",
        "14:00:00Z",
        "2026-12-01T14:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-12-01T25:00:00Z",
        "2026-12-01T14:00:00+25:00",
        "2026-12-01T14:00:00 Europe/Berlin",
        "01.12.2026 14:00",
        "Tue, 01 Dec 2026 14:00:00 GMT",
        "20261201T140000Z1",
        "10000-01-01T00:00:00Z",
    ]:
        yield Malformed(f"to be sent at {text!r}", written(send_at=text), 422, ("/send_at", "instant"))
        yield Malformed(f"to expire at {text!r}", written(expires_at=text), 422, ("/expires_at", "instant"))
    now = datetime.now(UTC)
    in_a_day, in_two_years = (now + timedelta(days=1)).isoformat(), (now + timedelta(days=730)).isoformat()
    for name in ("send_at", "expires_at"):
        # Named without the clock: the names are the same in every process that collects them.
        for what, text in {
            "in two years": in_two_years,
            "at the end of time": "9999-12-31T23:59:59Z",
            "beyond the end of time": "9999-12-31T23:59:59-23:59",
        }.items():
            yield Malformed(f"{name} is {what}", written(**{name: text}), 422, (f"/{name}", "too_far_ahead"))
    early = ("/expires_at", "expires_too_early")
    yield Malformed("expired long ago", written(expires_at="0001-01-01T00:00:00+23:59"), 422, early)
    yield Malformed("expired a second ago", written(expires_at=(now - timedelta(seconds=1)).isoformat()), 422, early)
    yield Malformed("expires when sent", written(send_at=in_a_day, expires_at=in_a_day), 422, early)


def _outside() -> Iterator[Malformed]:
    """What is wrong with the request, not with the body."""
    for name, headers in {
        "no content type": {},
        "an empty content type": {"Content-Type": ""},
        "text/plain": {"Content-Type": "text/plain"},
        "a form": {"Content-Type": "application/x-www-form-urlencoded"},
        "a multipart form": {"Content-Type": "multipart/form-data; boundary=x"},
        "JSON lines": {"Content-Type": "application/jsonl"},
        "problem+json": {"Content-Type": "application/problem+json"},
        "a list of types": {"Content-Type": "application/json, text/plain"},
        "declared Latin-1": {"Content-Type": "application/json; charset=latin-1"},
        "declared UTF-16": {"Content-Type": 'application/json; charset="utf-16"'},
        "said to be compressed": JSON | {"Content-Encoding": "gzip"},
        "an unknown encoding": JSON | {"Content-Encoding": "br, gzip"},
    }.items():
        yield Malformed(name, GOOD, 415, headers=headers)
    yield Malformed("compressed", gzip.compress(GOOD), 415, headers=JSON | {"Content-Encoding": "gzip"})
    yield Malformed("compressed and not said so", gzip.compress(GOOD), 400, ("", "nul_character"))
    bomb = gzip.compress(b"[" * 50_000_000)
    yield Malformed("a bomb", bomb, 415, headers=JSON | {"Content-Encoding": "gzip"})
    yield Malformed("a megabyte", written(payload={"course": "x" * 1_000_000}), 413)
    yield Malformed("a byte too many", GOOD + b" " * (256 * 1024 + 1 - len(GOOD)), 413)
    conflict = ("/idempotency_key", "idempotency_key_conflict")
    yield Malformed("other key in the header", GOOD, 422, conflict, JSON | {"Idempotency-Key": "other"})
    yield Malformed("an empty key in the header", GOOD, 422, conflict, JSON | {"Idempotency-Key": ""})
    keyless = without("idempotency_key")
    key = "/idempotency_key"
    yield Malformed("no key but an empty header", keyless, 422, (key, "too_short"), JSON | {"Idempotency-Key": ""})
    yield Malformed(
        "no key but 256 in the header", keyless, 422, (key, "too_long"), JSON | {"Idempotency-Key": "k" * 256}
    )
