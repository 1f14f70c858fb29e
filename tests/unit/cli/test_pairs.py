"""`streameval compare` and `streameval pairs`: sentences, tables, JSON, advice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
from streameval.v1 import pair_pb2, query_pb2, query_pb2_grpc

from ...commands import outcome as run
from ...fake_pairs import comparison, refused, running_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...fake_pairs import FakePairs


class _Queries(query_pb2_grpc.QueryServiceServicer):
    """Compares any two streams as independent ones."""

    def CompareStreams(self, request, context):  # noqa: ARG002, N802 - as gRPC names it
        answer = comparison().compared
        answer.revision, answer.prevalence = 3, 0.05
        answer.ClearField("p_value")
        for coverage, side in ((answer.coverage_a, request.a), (answer.coverage_b, request.b)):
            if side.stream.startswith("ids/"):
                coverage.predictions = 900
        return query_pb2.CompareStreamsResponse(comparison=answer)


@pytest.fixture
def served() -> Iterator[tuple[str, FakePairs]]:
    """Yield the address of a server of fake pairs, and the pairs."""
    with running_pairs(_Queries()) as found:
        yield found


def test_a_rollout_ends_with_a_sentence(served) -> None:
    """The sentence is the first line; `--json` is the client's answer."""
    address, service = served
    code, printed, errors = run("compare", "--server", address, "fraud/v3", "fraud/v4", "--paired")
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert lines[0] == (
        "fraud/v4 is better by 0.021 AUC-PR (0.012 to 0.030), on 48,211 shared ids; "
        "the evidence has been sufficient since 14:20"
    )
    assert lines[2].startswith("48,900 ids are scored by both (93.5% of all)")
    code, printed, _ = run(
        "compare", "--server", address, "fraud/v3", "fraud/v4", "--paired", "--json"
    )
    found = json.loads(printed)
    assert (found["verdict"], found["difference"], found["names"]) == (
        "b_better",
        -0.021,
        ["fraud/v3", "fraud/v4"],
    )
    service.answer = pair_pb2.GetPairComparisonResponse(comparison=refused())
    code, printed, _ = run("compare", "--server", address, "fraud/v3", "fraud/v4", "--paired")
    assert code == 0
    assert printed.startswith("no answer: no shared id has a label yet")


def test_options_of_a_paired_comparison(served) -> None:
    """They arrive, and segments are a table."""
    address, service = served
    for value, refusal in (("US", 0), ("FR", pair_pb2.PAIR_REFUSAL_TOO_FEW_LABELS)):
        each = comparison(refusal=refusal)
        each.segment.key, each.segment.value = "country", value
        service.answer.segments.append(each)
    code, printed, _ = run(
        *("compare", "--server", address, "fraud/v3", "fraud/v4", "--paired", "--by", "country"),
        *("--window", "7d", "--metric", "auc_roc", "--prevalence", 0.02, "--level", 0.9),
        *("--segment", "device=web"),
    )
    assert code == 0
    asked = service.requests[-1]
    assert (asked.metric, asked.prevalence, asked.level) == ("auc_roc", 0.02, 0.9)
    assert (asked.selection.last.seconds, asked.selection.segment.value) == (604_800, "web")
    lines = [line.split() for line in printed.splitlines()]
    table = next(at for at, line in enumerate(lines) if line[:2] == ["country", "labelled"])
    assert lines[table + 1][:3] == ["US", "48,211", "0.7020"]
    assert lines[table + 2][:3] == ["FR", "48,211", "0.7020"]
    assert lines[table + 2][-1] == "TOO_FEW_LABELS"


def test_no_pair_says_how_to_make_one(served) -> None:
    """Nothing is made unless told; `--create` makes it once."""
    address, service = served
    code, printed, errors = run("compare", "--server", address, "m/1", "m/2", "--paired")
    assert (code, printed) == (2, "")
    assert errors.strip() == (
        "streameval: there is no pair of m/1 and m/2: it counts what both predict once it is made; "
        f"run: streameval pairs create m/1 m/2 --server {address}"
    )
    assert len(service.known) == 1
    for _ in range(2):
        code, _, errors = run("compare", "--server", address, "m/2", "m/1", "--paired", "--create")
        assert (code, errors) == (0, "")
        assert [(each.a, each.b) for each in service.known[1:]] == [("m/2", "m/1")]


def test_an_independent_comparison_tells_of_the_pair(served) -> None:
    address, _ = served
    code, printed, errors = run("compare", "--server", address, "fraud/v3", "fraud/v4")
    assert (code, errors) == (0, "")
    assert printed.splitlines() == [
        "AUC-PR: fraud/v3 0.7020 (0.6840 to 0.7200), fraud/v4 0.7230 (0.7060 to 0.7390)",
        "fraud/v3 minus fraud/v4: -0.0210 (-0.0280 to -0.0140, p = nan)",
        "both at a prevalence of 0.05",
        "note: these are a pair, and on the same ids the answer is sharper: add --paired",
    ]
    code, printed, _ = run("compare", "--server", address, "m/1", "m/2", "--json")
    assert json.loads(printed)["difference"] == -0.021
    code, printed, _ = run("compare", "--server", address, "m/1", "m/2")
    assert "note:" not in printed


def test_an_independent_comparison_of_rows_by_id_names_the_pair_to_make(served) -> None:
    """Where both have predictions by id; not of one stream in two windows, nor of cases."""
    address, _ = served
    code, printed, errors = run("compare", "--server", address, "ids/1", "ids/2")
    assert (code, errors) == (0, "")
    assert printed.splitlines()[-1] == (
        "note: if both score the same ids they are not independent, and a pair is sharper: "
        f"streameval pairs create ids/1 ids/2 --server {address}"
    )
    for names in (("ids/1", "ids/1"), ("ids/1", "m/2")):
        assert "note:" not in run("compare", "--server", address, *names)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "fraud/v3"), "Missing argument 'B'"),
        (("compare", "m/1", "m/2", "m/3", "--paired"), "unexpected extra argument"),
        (("compare", "m/1", "m/2", "--create"), "--create is of pairs: give --paired, too"),
        (("compare", "m/1", "m/2", "--by", "country"), "--by is of pairs: give --paired, too"),
        (("compare", "m/1", "m/2", "--segment", "US"), "use key=value"),
    ],
)
def test_wrong_arguments(arguments, message) -> None:
    code, _, errors = run(*arguments)
    assert code == 2
    assert message in errors


def test_pairs_create_list_show_delete(served) -> None:
    address, service = served
    code, printed, errors = run(
        *(
            "pairs",
            "create",
            "--server",
            address,
            "m/1",
            "m/2",
            "--max-cells",
            256,
            "--label-ttl",
            "2d",
        ),
        *("--prevalence", 0.1, "--pane", "5m", "--retention", "7d", "--relabel-ttl", "1h"),
        *("--max-pending", 1000, "--name", "next"),
    )
    assert (code, errors) == (0, "")
    assert printed.startswith("next: m/1 and m/2, since 2026-11-25 12:00:00 UTC\n")
    asked = service.requests[-1].pair.settings
    assert {field.name for field, _ in asked.ListFields()} == {
        *("max_cells", "max_pending", "prevalence", "pane", "retention"),
        *("label_ttl", "relabel_ttl"),
    }
    assert (asked.max_cells, asked.label_ttl.seconds) == (256, 172_800)
    code, printed, _ = run("pairs", "list", "--server", address)
    # A console of 80 columns, as pytest-xdist sets it, breaks the line at a time.
    lines = [line for line in printed.splitlines() if not line.startswith(" ")]
    assert [line.split()[:3] for line in lines] == [
        ["name", "a", "b"],
        ["next", "m/1", "m/2"],
        ["rollout", "fraud/v3", "fraud/v4"],
    ]
    code, printed, _ = run("pairs", "list", "--server", address, "--stream", "m/2", "--json")
    assert [each["a"] for each in json.loads(printed)] == ["m/1"]
    code, printed, _ = run("pairs", "show", "--server", address, "next")
    rows = [line.rsplit(maxsplit=1) for line in printed.splitlines()]
    assert ["weighted labels", "3"] in rows
    assert ["prevalence", "0.1"] in rows
    assert [each for each in rows if each[0] == "expired"] == [
        ["expired", "drop"],
        ["expired", "0"],
    ]
    code, printed, _ = run("pairs", "show", "--server", address, "next", "--json")
    assert json.loads(printed)["counters"]["kept_ids"] == 17
    code, printed, _ = run("pairs", "delete", "--server", address, "next", answer="n\n")
    assert code == 1
    assert len(service.known) == 2
    code, printed, _ = run("pairs", "delete", "--server", address, "next", "--yes")
    assert (code, printed) == (0, "the pair next is deleted\n")
    code, printed, _ = run("pairs", "list", "--server", address, "--stream", "m/1")
    assert printed.strip() == (
        f"there is no pair of m/1; make one with: streameval pairs create A B --server {address}"
    )
    code, _, errors = run("pairs", "show", "--server", address, "next")
    assert code == 2
    assert "there is no pair next" in errors
