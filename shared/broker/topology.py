"""Every exchange and queue in RabbitMQ, under the names that its console shows.

    waybill.events ──announcement──▶ waybill.router ──20 deliveries, or unreadable──▶ waybill.router.dead
    waybill.wake.<channel> ──to all──▶ waybill.wake.<channel>.<replica>, one per replica

Arguments of a queue cannot be changed in place: another value here means a queue of another name.
"""

from uuid import uuid4

from faststream.rabbit import Channel as AmqpChannel
from faststream.rabbit import ExchangeType, QueueType, RabbitExchange, RabbitQueue

from shared.broker.bus import CONCURRENT_MESSAGES
from shared.channel import Channel

ANNOUNCEMENT = "announcement"
PROBE = "probe"
"""A routing key that leads nowhere: publishing under it asks whether the broker takes messages at all."""

EVENTS = RabbitExchange("waybill.events", type=ExchangeType.DIRECT)
DEAD_LETTERS = RabbitExchange("waybill.dead", type=ExchangeType.FANOUT)

DELIVERY_LIMIT = 20
"""A graceful stop counts as a delivery for what was prefetched, so this is far above any retry."""

ROUTER = RabbitQueue(
    "waybill.router",
    queue_type=QueueType.QUORUM,
    routing_key=ANNOUNCEMENT,
    arguments={
        "x-delivery-limit": DELIVERY_LIMIT,
        "x-dead-letter-exchange": DEAD_LETTERS.name,
    },
)
ROUTER_DEAD = RabbitQueue(
    "waybill.router.dead",
    # Evidence, not work: the events are QUEUED in Postgres and will be announced again.
    arguments={"x-max-length": 10_000, "x-overflow": "drop-head", "x-message-ttl": 14 * 24 * 3600 * 1000},
)


def wake_exchange(channel: Channel) -> RabbitExchange:
    """Where wakes for ``channel`` go in."""
    return RabbitExchange(f"waybill.wake.{channel}", type=ExchangeType.FANOUT)


def wake_queue(channel: Channel) -> RabbitQueue:
    """A fresh queue for the wakes of one replica; it holds the newest wake and vanishes with its replica.

    Not exclusive: after a lost connection the old queue may still be locked by it. Durable only because newer
    brokers no longer allow anything else.
    """
    return RabbitQueue(
        f"waybill.wake.{channel}.{uuid4().hex[:12]}",
        durable=True,
        auto_delete=True,
        arguments={"x-max-length": 1, "x-overflow": "drop-head", "x-expires": 60_000},
    )


def announcement_prefetch() -> AmqpChannel:
    """The AMQP channel of the router's consumer."""
    return AmqpChannel(prefetch_count=CONCURRENT_MESSAGES)


def wake_prefetch() -> AmqpChannel:
    """The AMQP channel of the wakes: one at a time, so that they are gathered in the queue."""
    return AmqpChannel(prefetch_count=1)


def confirmed() -> AmqpChannel:
    """The AMQP channel of the publisher: confirms on, and an unroutable message is an error."""
    return AmqpChannel(on_return_raises=True)
