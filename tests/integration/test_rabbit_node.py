"""The private RabbitMQ node of the suite: it survives what the tests do to it and leaves nothing behind."""

import asyncio

import aio_pika
import aiormq
import pytest

from deploy.rabbitmq.node import RabbitNode

QUEUE = "letters"


async def test_a_vhost_takes_messages_and_gives_them_back(amqp_url: str) -> None:
    async with await aio_pika.connect(amqp_url, timeout=30) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(QUEUE, durable=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), QUEUE, timeout=30)
        received = await queue.get(timeout=30)
        await received.ack()
    assert received.body == b"hello"


async def test_the_vhosts_of_two_tests_do_not_share_queues(rabbit: RabbitNode, amqp_url: str) -> None:
    other = rabbit.create_vhost("other")
    async with await aio_pika.connect(amqp_url, timeout=30) as connection:
        await (await connection.channel()).declare_queue(QUEUE)
    async with await aio_pika.connect(other, timeout=30) as connection:
        channel = await connection.channel()
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(QUEUE, passive=True)
    rabbit.management.delete_vhost("other")


async def test_a_confirmed_message_outlives_kill_minus_nine_of_the_broker(rabbit: RabbitNode, amqp_url: str) -> None:
    async with await aio_pika.connect(amqp_url, timeout=30) as connection:
        channel = await connection.channel()
        await channel.declare_queue(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, QUEUE, timeout=30)
        rabbit.kill()
        assert not rabbit.alive()
    await asyncio.to_thread(rabbit.start)
    async with await aio_pika.connect(amqp_url, timeout=30) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(QUEUE)
        received = await queue.get(timeout=30)
        await received.ack()
    assert received.body == b"kept"


async def test_a_frozen_broker_answers_nobody_until_it_is_thawed(rabbit: RabbitNode, amqp_url: str) -> None:
    rabbit.freeze()
    opening = asyncio.create_task(aio_pika.connect(amqp_url, timeout=60))
    done, _ = await asyncio.wait([opening], timeout=1)
    assert not done
    rabbit.thaw()
    connection = await opening
    await connection.close()
