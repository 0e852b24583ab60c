"""A sender with a cap, against a relay that would take everything at once."""

import asyncio
import time
from datetime import timedelta

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from shared.delivery.provider import Held
from shared.relay import Relay
from shared.tenant import EmailSender
from shared.verdict import Delivered
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink


async def test_a_senders_mails_go_out_at_its_own_pace_and_the_rest_comes_again() -> None:
    sink = await SmtpSink().start()
    provider = EmailProvider(
        OneRelay(Relay("127.0.0.1", sink.port)), pool_size=30, attempt_timeout=timedelta(seconds=20)
    )
    capped = EmailSender("hello@campus.example", "Campus", per_second=10)
    began = time.monotonic()
    ends = await asyncio.gather(*(provider.send(email_parcel(sender=capped)) for _ in range(30)))
    assert time.monotonic() - began > 0.9
    taken = [end for end in ends if isinstance(end, Delivered)]
    held = [end.wait for end in ends if isinstance(end, Held)]
    assert (len(taken), len(held), len(sink.mails)) == (11, 19, 11)
    assert max(held) < timedelta(seconds=1.5)
    free = EmailSender("other@campus.example", "Campus")
    assert isinstance(await provider.send(email_parcel(sender=free)), Delivered)
    await provider.close()
    await sink.close()
