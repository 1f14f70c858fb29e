"""What a window will read once its labels are in: by the client, the command and JSON."""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from streameval.client import Client, InvalidRequestError, PreconditionError
from streameval_server import Settings
from streameval_server.testing import running_service

from ..commands import CommandRunner, app, report_of, run
from ..late_labels import write_late_labels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval_server import Addresses

DAY = timedelta(days=1)
STREAM = "late/v1"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with 30 days of predictions."""
    made = tmp_path_factory.mktemp("projection")
    write_late_labels(made, STREAM)
    return made


@pytest.fixture(scope="module")
def addresses(directory: Path) -> Iterator[Addresses]:
    """Return a server's addresses."""
    with running_service(Settings(listen="127.0.0.1:0", data=directory)) as found:
        yield found


@pytest.fixture(scope="module")
def client(addresses: Addresses) -> Iterator[Client]:
    """Return a client of it."""
    with Client(addresses.grpc) as found:
        yield found


def test_the_client_has_the_projection(client: Client) -> None:
    """Now, projected, interval, limits and backtest, in objects, as a dict and in words."""
    stream = client.stream(STREAM)
    found = stream.snapshot(window=3 * DAY, projection=True)
    projection = found.projection
    assert [each.metric for each in projection.figures] == ["auc_roc", "auc_pr", "auc_pr"]
    assert 0 < projection.labelled_share < 1
    for figure in projection.figures:
        assert figure.reason is None
        assert figure.interval.lower < figure.projected < figure.interval.upper
        assert figure.limits[0] < figure.projected < figure.limits[1]
        assert figure.limits[0] < figure.now < figure.limits[1]
        assert 10 <= len(figure.backtest) <= 20
        ends = [each.end for each in figure.backtest]
        assert ends == sorted(ends)
        assert ends[-1] <= found.window[1] - 5 * DAY
    own = projection.figures[-1]
    assert own.now == found.auc_pr
    # A positive is labelled up to 3.5 days later, a negative after an hour.
    assert own.projected > own.now
    plain = json.loads(json.dumps(found.to_dict()))["projection"]
    assert plain["figures"][0]["projected"] == projection.figures[0].projected
    assert plain["assumption"].startswith("labelling depends on score band, class and age only")
    # Delays of up to 3.5 days in a window of 3: a doubling would hardly be found.
    assert "too few labels are there to tell" in plain["assumption"]
    assert {each.assumption for each in projection.figures} == {projection.assumption}
    assert "assumed: labelling depends on" in str(found)
    assert stream.snapshot(window=3 * DAY).projection is None
    assert "projection" not in stream.snapshot(window=3 * DAY).to_dict()


def test_rows_of_a_series_have_it(client: Client) -> None:
    """That of the same window; a row whose labels are in is projected as what it is."""
    stream = client.stream(STREAM)
    now = stream.snapshot(window=DAY).window[1]
    rows = stream.series(now - 15 * DAY, now, 5 * DAY, metrics=["auc_roc"], projection=True)
    assert [len(row.projection.figures) for row in rows] == [1, 1, 1]
    newest = rows[-1].projection.figures[0]
    whole = stream.snapshot(window=(now - 5 * DAY, now), projection=True)
    assert whole.window == rows[-1].window
    alone = whole.projection.figures[0]
    assert newest.reason is None
    assert (newest.now, newest.limits) == (alone.now, alone.limits)
    # Some milliseconds lie between the two calls, and labels come with time.
    assert newest.projected == pytest.approx(alone.projected, rel=1e-3)
    oldest = rows[0].projection.figures[0]
    assert oldest.projected == pytest.approx(oldest.now, rel=1e-3)


def test_the_command_prints_it(client: Client, addresses: Addresses) -> None:
    """As JSON, equal to the client's; as text with what it rests on."""
    asked = ["query", "--server", addresses.grpc, STREAM, "--window", "3d", "--projection"]
    result = CommandRunner().invoke(app, [*asked, "--json"])
    assert result.exit_code == 0, result.stderr
    expected = client.stream(STREAM).snapshot(window=3 * DAY, projection=True)
    printed = json.loads(result.stdout)["projection"]
    assert printed == json.loads(json.dumps(expected.projection.to_dict()))
    text = CommandRunner().invoke(app, asked).stdout
    assert "AUC-PR at a prevalence of" in text
    assert "whatever the missing labels" in text


def test_json_over_http_has_it(client: Client, addresses: Addresses) -> None:
    """By a parameter of the route."""
    answer = httpx.get(
        f"{addresses.http}/v1/streams/{STREAM}:snapshot",
        params={"selection.last": "259200s", "projection": "true"},
    )
    assert answer.status_code == 200, answer.text
    metrics = answer.json()["snapshot"]["projection"]["metrics"]
    expected = client.stream(STREAM).snapshot(window=3 * DAY, projection=True).projection.figures
    assert [each["projected"] for each in metrics] == [each.projected for each in expected]
    assert len(metrics[0]["backtest"]) == len(expected[0].backtest)


def test_a_stream_without_ids_is_refused_in_one_line(client: Client, addresses: Addresses) -> None:
    """By the client and by the command."""
    stream = client.stream("cases/v1")
    stream.add_cases(labels=[True, False], scores=[0.8, 0.1])
    stream.flush()
    words = "stream cases/v1 has no predictions by id: a projection needs labels that come by id"
    with pytest.raises(PreconditionError, match=words):
        stream.snapshot(window=DAY, projection=True)
    now = stream.snapshot(window=DAY).window[1]
    with pytest.raises(PreconditionError, match=words):
        stream.series(now - 3 * DAY, now, DAY, projection=True)
    result = CommandRunner().invoke(
        app, ["query", "--server", addresses.grpc, "cases/v1", "--window", "1d", "--projection"]
    )
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    with pytest.raises(InvalidRequestError, match="a projection is of a window, got all time"):
        stream.snapshot(projection=True)


def test_a_young_stream_says_what_it_waits_for(client: Client) -> None:
    """Without labels that are in only the value now and the limits are there."""
    stream = client.stream("young/v1")
    stream.log_cases(ids=["a", "b", "c"], scores=[0.9, 0.4, 0.2])
    stream.label_cases(ids=["a", "b"], labels=[True, False])
    stream.flush()
    roc = stream.snapshot(window=DAY, projection=True).projection.figures[0]
    assert roc.reason.name == "TOO_FEW_MATURE"
    assert (roc.now, roc.interval, roc.limits[1]) == (1.0, None, 1.0)
    assert "not projected: fewer than 30 labels of a class" in str(roc)


def test_a_report_has_the_projection(client: Client, addresses: Addresses, tmp_path: Path) -> None:
    """Of a window: the client's figures, what they rest on; of all time there is none."""
    stream = client.stream(STREAM)
    text = report_of(addresses.grpc, STREAM, tmp_path, "--window", "3d")
    projection = stream.snapshot(window=3 * DAY, projection=True).projection
    found = dict(re.findall(r'data-name="projected ([^"]*)" data-value="([^"]*)"', text))
    wanted = {
        each.metric + (" at the reference prevalence" if each.prevalence else ""): each.projected
        for each in projection.figures
        if each.projected is not None
    }
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert float(value) == pytest.approx(wanted[name], rel=1e-3)
    assert projection.assumption in text
    (tmp_path / "all").mkdir()
    assert "Once the labels are in" not in report_of(addresses.grpc, STREAM, tmp_path / "all")


def test_a_verdict_that_is_too_early_says_what_is_projected(tmp_path: Path) -> None:
    """The client, the command, JSON and the list say one number, with its limits."""
    write_late_labels(tmp_path, STREAM, days=9)
    settings = Settings(listen="127.0.0.1:0", http="127.0.0.1:0", data=tmp_path)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        found = client.stream(STREAM).verdict()
        assert found.quality == "immature"
        assert found.projected.lower < found.projected.estimate < found.projected.upper
        assert found.sentence.endswith(f"; projected {found.projected:.2f}.")
        ends = time.monotonic() + 60
        while (listed := client.list_summaries()[0].verdict).projected is None:
            assert time.monotonic() < ends  # a list that is asked for is projected after it
        assert (listed.projected, listed.sentence) == (found.projected, found.sentence)
        plain = json.loads(run("verdict", STREAM, "--server", addresses.grpc, "--json").stdout)
        assert plain["projected"] == found.to_dict()["projected"]
        assert found.sentence in " ".join(
            run("verdict", STREAM, "--server", addresses.grpc).stdout.split()
        )
        answer = httpx.get(f"{addresses.http}/v1/streams/{STREAM}:verdict").json()["verdict"]
        assert answer["projected"]["estimate"] == found.projected.estimate
        assert answer["sentence"] == found.sentence
