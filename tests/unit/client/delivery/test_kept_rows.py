"""Rows that are kept for want of segment keys leave the buffer to others once it is full."""

from __future__ import annotations

from streameval.client._buffer.buffer import Buffer
from streameval.client._delivery.delivery import Delivery
from streameval.v1 import ingest_pb2, status_pb2


def test_rows_that_are_kept_without_an_answer_do_not_fill_the_buffer() -> None:
    """The last rows arrive after the refusal: no message of the server follows them."""
    buffer = Buffer(capacity=10, batch_rows=5, when_full="block", start=lambda: True)
    delivery = Delivery(buffer, "p", "here:1")
    rows = buffer.stream_buffer("s")

    def add(number: int) -> None:
        for _ in range(number):
            buffer.add_case(rows, True, 0.5)

    add(5)
    delivery.drain_buffer()
    delivery.open(0.0)
    delivery.receive(ingest_pb2.IngestResponse(resume=delivery.sender.expected_resume()))
    refusal = status_pb2.Refusal(code=3, message="no key", segment_keys=["country"])
    sent = 0
    while (message := delivery.next_message()) is not None:  # kept rows are sent again, once
        refused = ingest_pb2.BatchRefused(sequence=message.batch.sequence, refusal=refusal)
        delivery.receive(ingest_pb2.IngestResponse(refused=refused))
        sent += 1
    assert sent == 2
    assert delivery.sender.held_rows == 5
    add(5)
    assert buffer.is_full
    assert delivery.next_message() is None
    assert (delivery.sender.refused_rows, delivery.sender.held_rows) == (10, 0)
    assert not buffer.is_full
