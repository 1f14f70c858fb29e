"""Messages with rows that cannot be counted, in a topic of their own.

A dead letter is the message as it was: key, value, headers; its own headers say why. It is
durable before the piece counts as consumed, so none is lost; a piece that is read again after a
crash writes its dead letters again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka import Message

    from streameval.kafka._piece import RefusedRow

PREFIX = "streameval_"
_MAX_TEXT_BYTES = 1_024
_MAX_SHOWN_ROWS = 20
_POLL_S = 0.1


def headers_of(
    message: Message, refused: Sequence[RefusedRow]
) -> list[tuple[str, str | bytes | None]]:
    """Return the headers of a dead letter: the message's, where it was, and why it is one.

    ``streameval_reason`` has each reason once, with commas; ``streameval_message`` the first
    text; ``streameval_rows`` the rows of the message, where they are known.
    """
    rows = sorted({each.row for each in refused if each.row is not None})
    own = {
        "reason": ",".join(dict.fromkeys(each.reason for each in refused)),
        "message": refused[0].message,
        "mapping": refused[0].mapping,
        "topic": message.topic(),
        "partition": str(message.partition()),
        "offset": str(message.offset()),
    }
    if rows:
        more = ",..." if len(rows) > _MAX_SHOWN_ROWS else ""
        own["rows"] = ",".join(map(str, rows[:_MAX_SHOWN_ROWS])) + more
    # Those of an earlier time, when the dead letter itself was consumed, are replaced.
    given = [
        (name, value or b"")
        for name, value in message.headers() or ()
        if not name.startswith(PREFIX)
    ]
    return given + [(PREFIX + name, text.encode()[:_MAX_TEXT_BYTES]) for name, text in own.items()]


class Letter(NamedTuple):
    """A message, and what of it is refused."""

    message: Message
    refused: Sequence[RefusedRow]


class DeadLetters:
    """Writes dead letters; safe in any thread.

    Parameters
    ----------
    topic : str
        Empty to write none.
    properties : dict of str to object
        Of librdkafka.
    on_error : callable
        Called with each failure, before it is tried again.
    """

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, object],
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self._topic = topic
        self._on_error = on_error
        self._lock = threading.Lock()
        self._producer = Producer({**properties, "enable.idempotence": True}) if topic else None

    @property
    def is_on(self) -> bool:
        """Whether there is a topic for them."""
        return self._producer is not None

    def write(self, letters: Iterable[Letter], is_closed: Callable[[], bool]) -> bool:
        """Write dead letters; return once they are durable, or False once `is_closed`.

        Tries again for as long as the broker is away. O(letters).
        """
        if self._producer is None:
            return True
        waiting = [(letter, letter.message.value()) for letter in letters]
        while waiting:
            if is_closed():
                return False
            with self._lock:  # so that the flush waits for these only
                waiting = self._write_once(waiting, is_closed)
        return True

    def _write_once(
        self, waiting: list[tuple[Letter, bytes | None]], is_closed: Callable[[], bool]
    ) -> list[tuple[Letter, bytes | None]]:
        """Write each letter once; return the letters to write again."""
        producer = self._producer
        assert producer is not None
        unsettled = dict(enumerate(waiting))

        def settle(number: int, error: KafkaError | None) -> None:
            if error is None:
                del unsettled[number]
                return
            self._on_error(error)
            letter, _ = unsettled[number]
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                # With its headers it is longer than the message was: they say where that is.
                unsettled[number] = (letter, None)

        for number, (letter, value) in enumerate(waiting):
            message = letter.message
            try:
                producer.produce(
                    self._topic,
                    key=message.key(),
                    value=value,
                    headers=headers_of(message, letter.refused),
                    on_delivery=lambda error, _, number=number: settle(number, error),
                )
            except BufferError:  # librdkafka's queue is full: in the next round
                producer.poll(_POLL_S)
            except KafkaException as error:
                settle(number, error.args[0])
        while producer.flush(_POLL_S) and not is_closed():
            pass
        return list(unsettled.values())
