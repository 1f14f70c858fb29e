"""A client of several servers: routing, sums over servers, and refused queries."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.client import (
    AlreadyExistsError,
    AsyncClient,
    Client,
    NotFoundError,
    UnavailableError,
)
from streameval.client._delivery.routing import owner
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = [f"model/v{i}" for i in range(24)]


@pytest.fixture(scope="module")
def addresses() -> Iterator[list[str]]:
    """Run three servers in memory; yield their addresses."""
    with ExitStack() as stack:
        yield [stack.enter_context(running_server()) for _ in range(3)]


def cases(seed: int, rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and scores with ties."""
    rng = np.random.default_rng(seed)
    labels = rng.random(rows) < 0.3
    return labels, np.round(rng.normal(size=rows) + labels, 2)


def counted(*columns: tuple[np.ndarray, np.ndarray]) -> Evaluator:
    """Return an evaluator with all cases."""
    ev = Evaluator()
    for labels, scores in columns:
        ev.add_cases(labels=labels, scores=scores)
    return ev


def test_each_stream_is_on_its_server(addresses: list[str]) -> None:
    """A client with the addresses in another order reads what the first one wrote."""
    with Client(addresses) as writer:
        for seed, name in enumerate(NAMES):
            labels, scores = cases(seed)
            writer.stream(name).add_cases(labels=labels, scores=scores)
        writer.flush()
        assert writer.statistics().acked == 500 * len(NAMES)
        for name in NAMES:
            writer.stream(name).snapshot()  # listed from here on
        revisions = {address: Client(address) for address in addresses}
    with Client(addresses[::-1]) as reader:
        assert [info.name for info in reader.list_streams("model/")] == sorted(NAMES)
        for seed, name in enumerate(NAMES):
            expected = counted(cases(seed))
            assert reader.stream(name).snapshot().auc_pr == expected.auc_pr()
            assert reader.get_stream(name).name == name
    for address, alone in revisions.items():
        with alone:
            mine = [name for name in NAMES if owner(name, addresses) == address]
            assert [info.name for info in alone.list_streams("model/")] == sorted(mine)


def test_shards_of_one_stream_are_one_exact_answer(addresses: list[str]) -> None:
    """Cases of one stream on three servers: each figure equals that of one evaluator."""
    with Client(addresses) as client:
        for seed, shard in enumerate(client.shards("hot/v1")):
            labels, scores = cases(seed)
            shard.add_cases(labels=labels, scores=scores)
        client.flush()
        whole = client.evaluator("hot/v1")
    expected = counted(cases(0), cases(1), cases(2))
    assert whole.num_cases == 1500
    assert whole.snapshot().to_dict()["auc_pr"] == expected.auc_pr()
    assert whole.auc_roc() == expected.auc_roc()
    assert whole.interval("auc_pr") == expected.interval("auc_pr")


@pytest.mark.parametrize("asyncio_too", [False, True])
def test_a_server_that_is_added_strands_no_ids(addresses: list[str], asyncio_too: bool) -> None:
    """Predictions of a client with two servers meet labels of one with three, in any order."""
    names = [f"added/{asyncio_too}/{number}" for number in range(60)]
    with Client(addresses[:2]) as before:
        for name in names:
            before.stream(name).log("id", 0.5)

    async def label() -> None:
        async with AsyncClient(addresses[::-1]) as client:
            for name in names:
                client.stream(name).label("id", True)

    if asyncio_too:
        asyncio.run(label())
    else:
        with Client(addresses[::-1]) as after:
            for name in names:
                after.stream(name).label("id", True)
    with Client(addresses) as reader:
        assert [reader.stream(name).snapshot().num_cases for name in names] == [1] * 60
        new = {f"new/{asyncio_too}/{number}" for number in range(60)}
        for name in new:
            reader.stream(name).add_case(True, 0.5)
        reader.flush()
    with Client(addresses[2]) as alone:
        mine = {info.name for info in alone.list_streams(f"new/{asyncio_too}/")}
        assert mine == {name for name in new if owner(name, addresses) == addresses[2]}


def test_a_server_that_is_removed_hands_its_ids_over(addresses: list[str], tmp_path: Path) -> None:
    """An exported stream has its waiting ids: labels of clients without the server meet them."""
    names = (f"handed/{number}" for number in range(99))
    name = next(each for each in names if owner(each, addresses) == addresses[2])
    with Client(addresses) as before:
        before.stream(name).log("id", 0.5)
    file = str(tmp_path / "stream.sve")
    for command in (
        ["export", "--server", addresses[2], name, file],
        ["import", "--server", addresses[0], file],
    ):
        arguments = [sys.executable, "-m", "streameval", "admin", *command]
        subprocess.run(arguments, check=True, capture_output=True, timeout=60)
    with Client(addresses[2]) as old:
        old.delete_stream(name)
    with Client(addresses[:2]) as after:
        after.stream(name).label("id", True)
        after.flush()
        assert after.stream(name).snapshot().num_cases == 1


def test_a_server_that_cannot_be_asked_is_named(
    addresses: list[str], free_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A new stream goes to its owner, with a warning; a stream that a server has, without."""
    caplog.set_level(logging.WARNING, "streameval.client")
    servers = [*addresses[:2], free_address]
    name = next(n for n in (f"away/{i}" for i in range(99)) if owner(n, servers) == addresses[0])
    with Client(servers) as client:
        assert client.stream(name).name == name
        (warning,) = [each.message for each in caplog.records if "does not say" in each.message]
        assert free_address in warning
        assert name in warning
        caplog.clear()
        with Client(addresses[1]) as other:
            other.stream(f"{name}/there").add_case(True, 0.5)
        assert client.stream(f"{name}/there").snapshot().num_cases == 1


def test_stream_with_two_parts_is_still_whole(addresses: list[str]) -> None:
    """Cases of one stream on two servers are added up."""
    name = next(n for n in (f"moved/{i}" for i in range(99)) if owner(n, addresses) == addresses[2])
    with Client(addresses[:2]) as before:
        labels, scores = cases(7)
        before.stream(name).add_cases(labels=labels, scores=scores)
    with Client(addresses[2]) as other:
        labels, scores = cases(8)
        other.stream(name).add_cases(labels=labels, scores=scores)
    with Client(addresses) as after:
        assert after.stream(name).evaluator().num_cases == 500
        assert after.evaluator(name).auc_pr() == counted(cases(7), cases(8)).auc_pr()


def test_management_goes_to_the_stream_s_server(addresses: list[str]) -> None:
    """Streams are created, changed and deleted on their own server."""
    with Client(addresses) as client:
        client.create_stream("made/v1", segment_keys=["country"])
        with pytest.raises(AlreadyExistsError):
            client.create_stream("made/v1")
        client.update_stream("made/v1", segment_keys=["country", "device"])
        assert client.get_stream("made/v1").settings.segment_keys == ("country", "device")
        client.delete_stream("made/v1")
        with pytest.raises(NotFoundError, match="made/v1"):
            client.evaluator("made/v1")


def test_comparison_needs_one_server(addresses: list[str]) -> None:
    """Streams of one server are compared there; others by their evaluators."""
    by_server = {address: [n for n in NAMES if owner(n, addresses) == address]
                 for address in addresses}  # fmt: skip
    (a, b, *_), (c, *_) = list(by_server.values())[:2]
    with Client(addresses) as client:
        for name in (a, b, c):
            client.stream(name).add_cases(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1])
        client.flush()
        assert client.compare(a, b).metric == "auc_pr"
        with pytest.raises(InvalidInputError, match="are on different servers: compare their"):
            client.compare(a, c)


def test_number_of_cases_cannot_be_counted_back(addresses: list[str]) -> None:
    """A window of n cases is refused with several servers."""
    with Client(addresses) as client, pytest.raises(InvalidInputError, match="number of cases"):
        client.evaluator("hot/v1", window=100)


def test_no_answer_without_one_of_them(addresses: list[str]) -> None:
    """Without one server there is no sum; streams of the other servers still answer."""
    gone = "127.0.0.1:1"
    servers = [*addresses, gone]
    names = (f"alive/{i}" for i in range(99))
    name = next(n for n in names if owner(n, servers) != gone)
    client = Client(servers, timeout_s=1.0)
    client.stream(name).add_case(True, 0.5)
    client.stream(name).flush()
    assert client.stream(name).snapshot().num_cases == 1
    with pytest.raises(UnavailableError):
        client.evaluator(name)
    client.close()


def test_asyncio_has_the_same(addresses: list[str]) -> None:
    """AsyncClient routes to the same servers and adds up the same states."""
    labels, scores = cases(3)

    async def main() -> tuple[list[str], Evaluator, int]:
        async with AsyncClient(addresses) as client:
            for shard in client.shards("twin/v1"):
                shard.add_cases(labels=labels, scores=scores)
            client.stream("twin/v2").add_cases(labels=labels, scores=scores)
            await client.flush()
            for stream in (*client.shards("twin/v1"), client.stream("twin/v2")):
                await stream.snapshot()  # listed from here on
            names = [info.name for info in await client.list_streams("twin/")]
            return names, await client.evaluator("twin/v1"), client.statistics().acked

    names, whole, acked = asyncio.run(main())
    assert names == ["twin/v1"] * 3 + ["twin/v2"]
    assert acked == 2000
    assert whole.auc_pr() == counted(*[cases(3)] * 3).auc_pr()
    with Client(addresses) as client:
        assert client.stream("twin/v2").evaluator().auc_pr() == counted(cases(3)).auc_pr()


def test_sum_is_exact_beyond_one_server_s_cap(addresses: list[str]) -> None:
    """The cap on cells holds for each server: the sum may have more cells."""
    scores = np.random.default_rng(4).normal(size=600_000)
    labels = scores + np.random.default_rng(5).normal(size=600_000) > 1
    with Client(addresses) as client:
        for index, shard in enumerate(client.shards("large/v1")):
            part = slice(index * 200_000, (index + 1) * 200_000)
            shard.add_cases(labels=labels[part], scores=scores[part])
        client.flush()
        whole = client.evaluator("large/v1")
    assert whole.resolution is None
    assert whole.num_cells == 600_000
    assert whole.auc_pr() == counted((labels, scores)).auc_pr()
