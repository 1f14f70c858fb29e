"""One rule at every door: the same values are labels, ids and scores wherever they come in.

Each table has a value, what it is, and the kind of public report in which it was met; facts only.
A door is a function of values that returns what each of them was taken as. Values that JSON does
not have go through the doors of Python only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("httpx", reason="needs the tests' requirements")
import httpx

from streameval import Evaluator, InvalidInputError, LabelJoiner, WindowedEvaluator
from streameval._common.names import check_ids
from streameval.client import Client
from streameval.payloads import Event, PayloadMapping, read_log_records, read_rows
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUSED = "refused"
NAN, INF = float("nan"), float("inf")

LABELS: list[tuple[Any, Any, str]] = [
    (True, True, "JSON"),
    (False, False, "JSON"),
    (1, True, "most data sets"),
    (0, False, "most data sets"),
    (1.0, True, "pandas: a column of integers with a gap becomes floats"),
    (0.0, False, "pandas: a column of integers with a gap becomes floats"),
    (-0.0, False, "wirelog#1239: -0.0 and 0.0 are one key"),
    ("1", True, "csv read as text"),
    ("0", False, "csv read as text"),
    ("1.0", True, "chemprop#1199: floats as text"),
    ("0.0", False, "chemprop#1199: floats as text"),
    ("true", True, "JSON in a text"),
    ("false", False, "JSON in a text"),
    ("True", True, "scikit-learn#9567: Python's booleans as text"),
    ("False", False, "scikit-learn#9567: Python's booleans as text"),
    ("TRUE", True, "spreadsheets, R"),
    ("FALSE", False, "spreadsheets, R"),
    ("tRuE", True, "case does not matter to booleans"),
    (" 1", True, "columns of fixed width"),
    ("0 ", False, "columns of fixed width"),
    ("1\n", True, "lines that keep their end"),
    ("\t0", False, "tabs"),
    ("1.000000000000000000e+00", True, "numpy.savetxt"),
    ("0.000000000000000000e+00", False, "numpy.savetxt"),
    ("1e0", True, "exponents"),
    ("0E0", False, "exponents"),
    ("+1", True, "libsvm#183: signs"),
    ("-0", False, "signs"),
    ("1.", True, "Fortran"),
    (".0", False, "Fortran"),
    ("1.00000", True, "SQL DECIMAL as text"),
    (np.bool_(True), True, "numpy"),
    (np.int64(0), False, "numpy"),
    (np.uint8(1), True, "images' masks"),
    (np.float32(1), True, "models' dtype"),
    (np.float16(0), False, "models' dtype"),
    (np.str_("1"), True, "numpy's texts"),
    (b"1", True, "numpy's bytes, HDF5"),
    (b"False", False, "HDF5"),
    (np.array(1), True, "arrays of no dimension"),
    (Decimal(1), True, "SQL DECIMAL"),
    (Decimal("0.000"), False, "SQL DECIMAL"),
    (Fraction(1), True, "fractions"),
    (None, REFUSED, "alteryx/evalml#2063: targets with gaps"),
    (NAN, REFUSED, "scikit-learn#5735: NaN in metrics"),
    ("", REFUSED, "csv: empty cells"),
    (" ", REFUSED, "csv: cells of blanks"),
    ("nan", REFUSED, "dipper#433: nan as text"),
    ("NaN", REFUSED, "pandas#19644: NaN as text"),
    ("NA", REFUSED, "pydatalab#398: NA of R"),
    ("N/A", REFUSED, "spreadsheets"),
    ("#N/A", REFUSED, "spreadsheets"),
    ("null", REFUSED, "JSON in a text"),
    ("NULL", REFUSED, "SQL exports"),
    ("None", REFUSED, "str(None)"),
    ("<NA>", REFUSED, "pandas' nullable columns as text"),
    ("NaT", REFUSED, "pandas"),
    (np.datetime64("NaT", "us"), REFUSED, "numpy"),
    (np.ma.masked, REFUSED, "numpy's masked arrays"),
    (Decimal("NaN"), REFUSED, "SQL"),
    (2, REFUSED, "scikit-learn#9567: classes 1 and 2"),
    (-1, REFUSED, "CheXpert-Keras#1: -1 is uncertain, there"),
    ("-1", REFUSED, "StackNet#60: classes -1 and 1 as text"),
    (-1.0, REFUSED, "libsvm: classes -1 and 1"),
    (3, REFUSED, "codes of a survey"),
    (0.5, REFUSED, "soft labels"),
    ("0.5", REFUSED, "soft labels"),
    (0.9999999999999999, REFUSED, "averages of raters"),
    ("0.99999999999999999999", REFUSED, "a float would make it 1"),
    ("1e-400", REFUSED, "a float would make it 0"),
    (255, REFUSED, "images' masks"),
    (9, REFUSED, "a code for missing"),
    (-999, REFUSED, "a code for missing"),
    (INF, REFUSED, "divisions"),
    (-INF, REFUSED, "divisions"),
    (1e300, REFUSED, "damage"),
    ("yes", REFUSED, "mljar#655: yes and no without a declared class"),
    ("no", REFUSED, "mljar#655: yes and no without a declared class"),
    ("y", REFUSED, "forms"),
    ("t", REFUSED, "PostgreSQL's booleans"),
    ("f", REFUSED, "PostgreSQL's booleans"),
    ("on", REFUSED, "forms"),
    ("positive", REFUSED, "machinelearning-samples#528: words"),
    ("pending", REFUSED, "labels that are not final"),
    ("unknown", REFUSED, "labels that are not final"),
    ("fraud", REFUSED, "words without a declared class"),
    ("01", REFUSED, "filesql#278: leading zeros are codes"),
    ("1,0", REFUSED, "decimal commas"),
    ("1_0", REFUSED, "Python's digits"),
    ("0x1", REFUSED, "hexadecimal"),
    ("1 0", REFUSED, "two values in a cell"),
    ("'1'", REFUSED, "doubled quotes"),
    ("[1]", REFUSED, "lists as text"),
    ("\u0661", REFUSED, "digits of other scripts"),
    ("\uff11", REFUSED, "full-width digits"),
    ([], REFUSED, "JSON"),
    (np.array([1, 0]), REFUSED, "one-hot; in JSON a list is rows"),
    ({}, REFUSED, "JSON"),
    ({"value": 1}, REFUSED, "JSON"),
    (1j, REFUSED, "complex numbers"),
    (np.timedelta64(1), REFUSED, "durations"),
    (datetime(2026, 1, 1, tzinfo=UTC), REFUSED, "times"),
    (Decimal("1e-400"), REFUSED, "a float would make it 0"),
]

IDS: list[tuple[Any, Any, str]] = [
    ("order-17", "order-17", "texts"),
    ("17", "17", "texts"),
    (17, "17", "integers"),
    (0, "0", "integers"),
    (-17, "-17", "integers"),
    (17.0, "17", "go-gota#205, hale#737: an integer that became a float with a gap"),
    (10000001.0, "10000001", "synapsePythonClient#438: the same"),
    (-0.0, "0", "ClickHouse#112409: float keys"),
    (1e3, "1000", "exponents"),
    (2.0**53 - 1, "9007199254740991", "the last safe integer"),
    (738529527931269425, "738529527931269425", "upickle#522: snowflakes"),
    (653247040368672768, "653247040368672768", "powercontext#91: snowflakes"),
    (
        1161888007138312192,
        "1161888007138312192",
        "IonicaBizau/edit-json-file#63: kept to the digit",
    ),
    (11618880071383121, "11618880071383121", "IonicaBizau/edit-json-file#63: an odd one"),
    (2**63, "9223372036854775808", "unsigned 64 bits"),
    (10**30, "1" + "0" * 30, "decimal ids"),
    ("17.0", "17.0", "filesql#278: a text is what it says"),
    ("007", "007", "filesql#278: leading zeros"),
    ("1e3", "1e3", "pandas: ids with an e"),
    ("NaN", "NaN", "dipper#433: an id that is the word"),
    ("null", "null", "people of that name"),
    ("True", "True", "texts"),
    (" a", " a", "blanks count"),
    ("東京", "東京", "Unicode"),
    ("a/b", "a/b", "paths"),
    ("x" * 128, "x" * 128, "the longest"),
    (np.int32(17), "17", "numpy"),
    (np.uint64(2**64 - 1), str(2**64 - 1), "numpy"),
    (np.float64(17), "17", "numpy"),
    (np.float32(17), "17", "liam2#51: float32 has 24 bits"),
    (np.str_("a"), "a", "numpy"),
    (np.array(17), "17", "numpy"),
    (Decimal(17), "17", "SQL"),
    (Decimal("17.00"), "17", "SQL"),
    (b"a", "a", "bytes of UTF-8"),
    (2.0**53, REFUSED, "jsonhero#144: two integers are this float"),
    (738529527931269425.0, REFUSED, "upickle#522: a snowflake as float"),
    (1.610521604143694e18, REFUSED, "jsonhero#144: a snowflake as float"),
    (-(2.0**53), REFUSED, "PerformanceMonitor#2548: a hash as float"),
    (0.5, REFUSED, "random numbers as ids"),
    (17.000000001, REFUSED, "sums as ids"),
    (1e300, REFUSED, "floats"),
    (NAN, REFUSED, "polars#295: NaN as a key"),
    (INF, REFUSED, "floats"),
    (None, REFUSED, "missing"),
    ("", REFUSED, "empty"),
    ("x" * 129, REFUSED, "too long"),
    ("é" * 65, REFUSED, "too long in UTF-8"),
    ("\ud800", REFUSED, "half a surrogate pair"),
    (True, REFUSED, "a boolean is no id"),
    (False, REFUSED, "a boolean is no id"),
    ({}, REFUSED, "objects"),
    ({"$oid": "5f"}, REFUSED, "MongoDB's exports"),
    (np.float32(2**24), REFUSED, "liam2#51: float32 has 24 bits"),
    (np.float16(2**11), REFUSED, "float16 has 11 bits"),
    (np.datetime64("NaT", "us"), REFUSED, "missing"),
    (Decimal("0.5"), REFUSED, "SQL"),
    (1j, REFUSED, "complex numbers"),
]

SCORES: list[tuple[Any, Any, str]] = [
    (0.5, 0.5, "probabilities"),
    (0, 0.0, "integers"),
    (1, 1.0, "integers"),
    (-3, -3.0, "logits"),
    (-0.0, 0.0, "signed zeros"),
    (1e-320, 1e-320, "denormals"),
    (1e308, 1e308, "large"),
    (2**53, 2.0**53, "the last integer that floats tell apart"),
    (-(2**53), -(2.0**53), "the last integer that floats tell apart"),
    (9007199254740994.0, 9007199254740994.0, "a float is what it says"),
    (np.float32(0.5), 0.5, "models' dtype"),
    (np.float16(0.5), 0.5, "models' dtype"),
    (np.int8(-3), -3.0, "quantised models"),
    (np.array(0.5), 0.5, "arrays of no dimension"),
    (Decimal("0.5"), 0.5, "SQL"),
    (Fraction(1, 2), 0.5, "fractions"),
    (2**53 + 1, REFUSED, "flux-core#6171: two integers are one float"),
    (-(2**53) - 1, REFUSED, "flux-core#6171: two integers are one float"),
    (2**53 + 2, REFUSED, "an integer beyond"),
    (1795689600000000000, REFUSED, "nanoseconds as a score"),
    (1009651914519660511, REFUSED, "redis#15824: keys packed into a score"),
    (65100926077290603, REFUSED, "redis#2835: a score of 17 digits"),
    (2**51 + 1, 2.0**51 + 1, "redis#1075: above 2^51, still exact"),
    (1009651914519660544.0, 1009651914519660544.0, "valkey#4693: a float is what it says"),
    (0.975230281005876, 0.975230281005876, "trec_eval#34: float32 would tie"),
    (np.float32(0.1), float(np.float32(0.1)), "scikit-learn#34975: float32 as it is"),
    (10038000307000729, REFUSED, "josdejong/lossless-json#266: odd, so no float"),
    (9224851642388483, REFUSED, "jqlang/jq#1783: an integer that is read as its neighbour"),
    (76561197980428154, REFUSED, "tfausak/rattletrap#56: a key of an account"),
    (6150769120280496265, REFUSED, "IvanMathy/Boop#372: formatted as another"),
    (-9224851642388483, REFUSED, "jqlang/jq#1783: the same below zero"),
    (2**63, REFUSED, "hashes as scores"),
    (2**64 - 1, REFUSED, "hashes as scores"),
    (10**25, REFUSED, "integers of any size"),
    (10**400, REFUSED, "integers beyond floats"),
    (np.int64(2**53 + 1), REFUSED, "numpy"),
    (np.uint64(2**64 - 1), REFUSED, "numpy"),
    (Decimal(2**53 + 1), REFUSED, "SQL"),
    (NAN, REFUSED, "scikit-learn#5735: NaN as a score"),
    (INF, REFUSED, "scikit-learn#5735: inf as a score"),
    (-INF, REFUSED, "log of zero"),
    (True, REFUSED, "decisions instead of scores"),
    (False, REFUSED, "decisions instead of scores"),
    ("0.5", REFUSED, "a text: whether it is a number is not known"),
    ("", REFUSED, "empty"),
    ("high", REFUSED, "words"),
    (None, REFUSED, "missing"),
    ({}, REFUSED, "anthropics/claude-code#82365: a number that became {}"),
    ({"p": 0.5}, REFUSED, "objects"),
    (1j, REFUSED, "complex numbers"),
    (np.datetime64("NaT", "us"), REFUSED, "missing"),
]

TABLES = {"label": LABELS, "id": IDS, "score": SCORES}
Door = Callable[[str, Sequence[Any]], list[Any]]


def expected(kind: str, values: Sequence[Any]) -> list[Any]:
    """Return what a table says of some of its values, which are found by identity."""
    known = {id(value): found for value, found, _ in TABLES[kind]}
    return [known[id(value)] for value in values]


def values_of(kind: str, *, json_only: bool) -> list[Any]:
    """Return a table's values; those that JSON has, if wanted."""
    plain = (bool, int, float, str, type(None), list, dict)
    return [v for v, _, _ in TABLES[kind] if not json_only or type(v) in plain]


def shown(kind: str, values: Sequence[Any], found: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return values with what they were taken as; booleans and numbers are not mixed up."""
    return [(f"{kind} {value!r:.60}", str(each)) for value, each in zip(values, found, strict=True)]


def check(
    door: Door, *, json_only: bool, without: Callable[[str, Any], bool] | None = None
) -> None:
    """Hold a door to the tables, all differences in one message."""
    for kind in TABLES:
        values = values_of(kind, json_only=json_only)
        if without is not None:
            values = [value for value in values if not without(kind, value)]
        found = shown(kind, values, door(kind, values))
        wanted = shown(kind, values, expected(kind, values))
        assert [each for each in found if each not in wanted] == []


def each(read: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that reads values one by one, refused ones by their error."""

    def read_all(values: Sequence[Any]) -> list[Any]:
        found = []
        for value in values:
            try:
                found.append(read(value))
            except InvalidInputError:
                found.append(REFUSED)
        return found

    return read_all


def test_tables() -> None:
    """About two hundred values, each once, ten of each kind and more from public reports."""
    assert sum(map(len, TABLES.values())) >= 190
    for table in TABLES.values():
        reports = [source for _, _, source in table if "#" in source]
        assert len(reports) >= 4
        keys = [(type(value), repr(value)) for value, _, _ in table]
        assert len(set(keys)) == len(keys)


def add_case(label: Any = True, score: Any = 0.5) -> tuple[bool, float]:
    """Return the case that an evaluator counted, by a call and by columns alike."""
    one, many = Evaluator(), Evaluator()
    one.add_case(label, score)
    many.add_cases(labels=[label], scores=[score])
    assert one == many
    (threshold,) = one.operating_points().thresholds[1:]
    return one.num_positive_ref == 1, float(threshold)


def test_the_library() -> None:
    """Calls and columns of evaluators, and ids as joiners read them."""

    def joined(value: Any) -> str:
        joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=1))
        joiner.log(value, 0.5, at=datetime(2026, 1, 1, tzinfo=UTC))
        return check_ids([value])[0].decode()

    doors = {
        "label": each(lambda value: add_case(label=value)[0]),
        "score": each(lambda value: add_case(score=value)[1]),
        "id": each(joined),
    }
    check(lambda kind, values: doors[kind](values), json_only=False)


MAPPING = PayloadMapping.of({"preset": "ndjson", "stream": "s"})


def body_of(kind: str, value: Any, number: int) -> dict[str, Any]:
    """Return the payload that has a value."""
    body: dict[str, Any] = {"id": f"i{number}"}
    if kind != "label":
        body["score"] = 0.5
    return {**body, kind: value}


def taken(kind: str, rows: Sequence[Any]) -> Any:
    """Return what was taken of a payload's only row."""
    if not rows:
        return REFUSED
    (row,) = rows
    if kind == "score":
        return row.score + 0.0  # as evaluators keep it: 0.0 of -0.0
    return row.label if kind == "label" else row.id


def test_a_mapping() -> None:
    """Of JSON as it is parsed."""

    def door(kind: str, values: Sequence[Any]) -> list[Any]:
        bodies = [json.loads(json.dumps(body_of(kind, each, n))) for n, each in enumerate(values)]
        return [taken(kind, read_rows(MAPPING, Event(body)).rows) for body in bodies]

    check(door, json_only=True)


def any_value(value: Any) -> Any:
    """Return a JSON value as OTLP's JSON has it; None where that has none."""
    if value is None:
        return {}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        pairs = [{"key": key, "value": any_value(each)} for key, each in value.items()]
        return {"kvlistValue": {"values": pairs}}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else str(value).replace("nan", "NaN")
                .replace("inf", "Infinity")}  # fmt: skip
    kinds = {bool: "boolValue", str: "stringValue", int: "intValue"}
    return {kinds[type(value)]: str(value) if type(value) is int else value}


def test_log_records() -> None:
    """Of OTLP's JSON, whose integers are texts."""

    def door(kind: str, values: Sequence[Any]) -> list[Any]:
        bodies = [any_value(body_of(kind, each, n)) for n, each in enumerate(values)]
        request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": b} for b in bodies]}]}]}
        events = read_log_records(json.dumps(request).encode())
        return [
            taken(kind, read_rows(MAPPING, event).rows) if isinstance(event, Event) else REFUSED
            for event in events
        ]

    # Integers there have 64 bits.
    check(door, json_only=True, without=lambda _, v: type(v) is int and abs(v) >= 1 << 64)


class Message:
    """A message of Kafka without a broker."""

    def __init__(self, body: Any) -> None:
        self._value = json.dumps(body).encode()

    def value(self) -> bytes:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def headers(self) -> None: ...

    def key(self) -> None: ...

    def topic(self) -> str:
        return "t"


def test_kafka() -> None:
    """Message by message, so that the short way of simple messages is taken where it can."""
    pytest.importorskip("confluent_kafka")
    from streameval.kafka._piece import read_piece

    def door(kind: str, values: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for number, value in enumerate(values):
            piece = read_piece([Message(body_of(kind, value, number))], [MAPPING])  # type: ignore[list-item]
            if piece.refused:
                assert not piece.batches
                found.append(REFUSED)
                continue
            (batch,) = piece.batches
            (id_,), (taken_as,) = batch.ids, batch.values
            found.append({"id": id_, "label": bool(taken_as), "score": taken_as + 0.0}[kind])
        return found

    check(door, json_only=True)


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[httpx.Client, str]]:
    """Yield a client of a server's HTTP, and the address of its gRPC."""
    from streameval_server import Settings

    mappings = tuple(
        PayloadMapping.of({"preset": "ndjson", "stream": f"http/{kind}", "types": [kind]})
        for kind in TABLES
    )
    settings = Settings(listen="127.0.0.1:0", memory=True, ingest=mappings)
    with running_service(settings) as addresses:
        assert addresses.http is not None
        with httpx.Client(base_url=addresses.http, timeout=30) as http:
            yield http, addresses.grpc


def references(http: httpx.Client, stream: str) -> tuple[int, int]:
    """Return how many positives and negatives a stream has, once all is visible."""
    wait = {"selection.minRevision": http.get("/v1/server").json()["durableRevision"]}
    found = http.get(f"/v1/streams/{stream}:snapshot", params=wait).json()["snapshot"]
    return int(found.get("numPositiveRef", 0)), int(found.get("numNegativeRef", 0))


def test_cloud_events(service: tuple[httpx.Client, str]) -> None:
    """Of batches over HTTP: what is refused, and how many of each class count."""
    http, _ = service

    def post(kind: str, bodies: Sequence[Any]) -> list[bool]:
        batch = [
            {"specversion": "1.0", "id": "1", "source": "s", "type": kind, "data": body}
            for body in bodies
        ]
        answer = http.post(
            "/v1/cloudevents",
            headers={"content-type": "application/cloudevents-batch+json"},
            content=json.dumps(batch),
        ).json()
        refused = {each["event"] for each in answer["refusals"]}
        return [place not in refused for place in range(len(bodies))]

    def door(kind: str, values: Sequence[Any]) -> list[Any]:
        bodies = [body_of(kind, each, n) for n, each in enumerate(values)]
        if kind == "label":
            assert all(post(kind, [{"id": each["id"], "score": 0.5} for each in bodies]))
        is_taken = [
            found for at in range(0, len(bodies), 50) for found in post(kind, bodies[at : at + 50])
        ]
        return [
            found if is_taken else REFUSED
            for found, is_taken in zip(expected(kind, values), is_taken, strict=True)
        ]

    check(door, json_only=True)
    labels = expected("label", values_of("label", json_only=True))
    assert references(http, "http/label") == (labels.count(True), labels.count(False))


def test_the_client(service: tuple[httpx.Client, str]) -> None:
    """Calls over gRPC: what is refused, and how many of each class count."""
    http, address = service
    with Client(address) as client:
        stream = client.stream("grpc/labels")

        def door(kind: str, values: Sequence[Any]) -> list[Any]:
            found: list[Any] = []
            for number, value in enumerate(values):
                verbs: dict[str, Callable[[], None]] = {
                    "label": lambda n=number, v=value: stream.label(f"i{n}", v),
                    "id": lambda v=value: client.stream("grpc/ids").log(v, 0.5),
                    "score": lambda n=number, v=value: client.stream("grpc/s").log(f"i{n}", v),
                }
                stream.log(f"i{number}", 0.5)
                try:
                    verbs[kind]()
                except InvalidInputError:
                    found.append(REFUSED)
                else:
                    found.append(expected(kind, [value])[0])
            return found

        check(door, json_only=False)
        client.flush()
        labels = expected("label", values_of("label", json_only=False))
        assert references(http, "grpc/labels") == (labels.count(True), labels.count(False))


def test_the_adapter_of_river() -> None:
    """As river has it, every other class is negative; what is missing is refused, as elsewhere."""
    pytest.importorskip("river.metrics")
    from streameval.adapters.river import BinaryArea

    def counted(label: Any, score: Any) -> bool:
        metric = BinaryArea("auc_roc")
        metric.update(label, score)
        return bool(metric.evaluator.num_positive_ref)

    for value, wanted, _ in LABELS:
        try:
            found: Any = counted(value, 0.5)
        except InvalidInputError:
            found = REFUSED
        is_missing = "label is missing" in refusal_of(value)
        assert found is (wanted if wanted is not REFUSED else REFUSED if is_missing else False), (
            value
        )
    for value, wanted, _ in SCORES:
        if isinstance(value, bool | str | dict):
            continue  # decisions, and probabilities by class
        if wanted is REFUSED:
            with pytest.raises(InvalidInputError):
                counted(True, value)
        else:
            assert counted(True, value)


def refusal_of(value: Any) -> str:
    """Return why a label is refused."""
    from streameval._common.labels import Labels

    try:
        Labels().read(value)
    except InvalidInputError as error:
        return str(error)
    return ""


def test_the_adapter_of_scikit_learn() -> None:
    """A label among a positive and a negative one: a third class is refused."""
    pytest.importorskip("sklearn.metrics")
    from streameval.adapters.sklearn import auc_pr_score

    for value, wanted, _ in LABELS:
        labels = np.array([None, 1, 0], dtype=object)
        labels[0] = value
        if wanted is REFUSED:
            with pytest.raises(InvalidInputError):
                auc_pr_score(labels, [0.9, 0.8, 0.1])
        else:
            same = auc_pr_score([int(wanted), 1, 0], [0.9, 0.8, 0.1])
            assert auc_pr_score(labels, [0.9, 0.8, 0.1]) == same, value


def test_the_adapter_of_torchmetrics() -> None:
    """Of tensors, which have booleans and numbers only."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchmetrics")
    from streameval.adapters.torchmetrics import BinaryArea

    for value, wanted, _ in LABELS:
        if type(value) not in (bool, int, float):
            continue
        metric = BinaryArea("auc_roc")
        kind = torch.bool if isinstance(value, bool) else torch.float64
        if wanted is REFUSED:
            with pytest.raises(InvalidInputError):
                metric.update(torch.tensor([0.5]), torch.tensor([value], dtype=kind))
        else:
            metric.update(torch.tensor([0.5]), torch.tensor([value], dtype=kind))
            assert metric.evaluator().num_positive_ref == int(wanted)


def test_files(tmp_path: Path) -> None:
    """Lines of JSON, and cells of CSV, where every value is a text."""
    pytest.importorskip("pyarrow")
    from streameval.cli._file_values import FileError
    from streameval.cli._rows import FileColumns
    from streameval.cli._rows import read_rows as read_file

    def read(path: Path, kind: str, text: str) -> Any:
        path.write_text(text, "utf-8", newline="")
        try:
            (rows,) = read_file(path, FileColumns(**{kind: kind}))
        except FileError:
            return REFUSED
        (found,) = {"label": rows.labels, "id": rows.ids, "score": rows.scores}[kind]
        return {"label": bool, "id": str, "score": lambda each: float(each) + 0.0}[kind](found)

    def lines(kind: str, values: Sequence[Any]) -> list[Any]:
        path = tmp_path / "rows.ndjson"
        return [read(path, kind, json.dumps({kind: value}) + "\n") for value in values]

    def cells(kind: str, values: Sequence[Any]) -> list[Any]:
        path = tmp_path / "rows.csv"
        quoted = [value.replace('"', '""') for value in values]
        return [read(path, kind, f'{kind},other\r\n"{value}",x\r\n') for value in quoted]

    # A cell cannot tell a number from its text, an object is its JSON, and the length of ids is
    # checked where they go.
    def is_other(kind: str, value: Any) -> bool:
        if kind == "id":
            return (
                value == ""
                or isinstance(value, dict)
                or len(str(value).encode("utf-8", "replace")) > 128
            )
        return kind == "score" and isinstance(value, str)

    def is_surrogate(value: Any) -> bool:
        return isinstance(value, str) and value == "\ud800"

    check(lines, json_only=True, without=lambda k, v: is_other(k, v) or is_surrogate(v))
    check(
        cells,
        json_only=True,
        without=lambda k, v: not isinstance(v, str) or is_other(k, v) or is_surrogate(v),
    )


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
def test_typed_columns_of_files(tmp_path: Path, ending: str) -> None:
    """Ids of floats meet those of integers; a bad one is named by its row."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from streameval.cli._file_values import FileError
    from streameval.cli._rows import FileColumns
    from streameval.cli._rows import read_rows as read_file

    def read(kind: str, values: list[Any]) -> list[Any]:
        path = tmp_path / f"rows.{ending}"
        if ending == "parquet":
            pq.write_table(pa.table({kind: values}), path)
        elif ending == "csv":
            path.write_text("\n".join([kind, *map(str, values)]) + "\n")
        else:
            path.write_text("".join(json.dumps({kind: value}) + "\n" for value in values))
        (rows,) = read_file(path, FileColumns(**{kind: kind}))
        return list({"id": rows.ids, "score": rows.scores}[kind])

    assert read("id", [10000001, 10000002]) == ["10000001", "10000002"]
    if ending != "csv":  # where a float is its text
        assert read("id", [10000001.0, 10000002.0]) == ["10000001", "10000002"]
        for bad in (2.0**53, 0.5):
            with pytest.raises(FileError, match="row 2: id must be a text or an integer"):
                read("id", [1.0, bad])
    assert read("score", [1, 2**53]) == [1.0, 2.0**53]
    with pytest.raises(FileError, match=r"row 2: score must be at most 2\*\*53"):
        read("score", [1, 2**53 + 1])
