"""Each kind of misuse is answered in one line that ends with what to do: a command, or words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("pyarrow", reason="needs the extra files")

from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from ...commands import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = {
    "good.csv": "label,score,country\n1,0.9,US\n0,0.1,DE\n",
    "other.csv": "y,p\n1,0.9\n0,0.1\n",
    "nan.csv": "label,score\n1,nan\n0,0.1\n",
    "text.csv": "label,score\n1,high\n0,0.1\n",
    "three.csv": "label,score\n1,0.5\n0,0.1\n2,0.3\n",
    "empty.csv": "",
    "ragged.csv": "label,score\n1,0.5,9\n0\n",
    "semicolons.csv": "label;score\n1;0,5\n0;0,1\n",
    "twice.csv": "label,score,score\n1,0.9,1\n",
    "negatives.csv": "label,score\n0,0.9\n0,0.1\n",
    "old.csv": "label,score,at\n1,0.9,2001-01-01\n0,0.1,2001-01-01\n",
    "words.csv": "label,score,at\n1,0.9,yesterday\n0,0.1,2001-01-01\n",
    "bad.ndjson": '{"label":1,"score":0.5}\n{"label":\n',
    "bad.parquet": "no parquet",
    "list.txt": "1 2\n",
    "letters.txt": "0.5 x\n",
    "wrong.toml": "lisen = 'x'\n",
    "broken.toml": "listen =\n",
    "mapping.toml": "[[ingest]]\nstream = 'a'\n",
    "half.json": "{",
    "no-export.sve": "hello",
    "unknown": "sv1.x.y",
    "blank": "",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """Yield the files, and two servers: one with a stream ``s``, one with tokens."""
    folder = tmp_path_factory.mktemp("misuse")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "wide.csv").write_text("label,score\n1,0.5\n", encoding="utf-16")
    (folder / "folder").mkdir()
    tokens = folder / "tokens.toml"
    (folder / "reader").write_text(create_token(tokens, "reader", ["query"]))
    (folder / "fraud").write_text(create_token(tokens, "fraud", ["query"], ["fraud"]))
    opened = Settings(listen="127.0.0.1:0", memory=True)
    guarded = Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)
    with (
        running_service(opened) as server,
        running_service(guarded) as secured,
        Client(server.grpc) as client,
    ):
        client.create_stream("s", segment_keys=["country"])
        client.create_stream("bare")
        yield {
            "S": f"--server {server.grpc}",
            "T": f"--server {secured.grpc}",
            "page": server.http,
            "grpc": server.grpc,
            "d": folder,
        }


MISUSE = {
    "file": [
        ("evaluate {d}/list.txt", "run: streameval auc {d}/list.txt"),
        ("evaluate {d}/empty.csv", "write one, such as label,score"),
        ("evaluate {d}/bad.parquet", "name it by what it is, or write it again"),
        ("evaluate {d}/wide.csv", "run: iconv -f utf-16 -t utf-8 {d}/wide.csv > {d}/wide.utf8.csv"),
        ("evaluate {d}/bad.ndjson", "leave such rows out, or replace the value"),
        ("evaluate {d}/ragged.csv", "leave such rows out, or replace the value"),
        ("evaluate {d}/folder", "write its rows as one"),
        ("evaluate {d}/none.csv", "Try 'streameval evaluate --help'"),
        ("auc {d}/letters.txt", "write 1 for positives"),
    ],
    "column": [
        (
            "evaluate {d}/good.csv --score scre",
            "run: streameval evaluate {d}/good.csv --score score",
        ),
        ("evaluate {d}/other.csv", "run: streameval evaluate {d}/other.csv --score COLUMN"),
        ("evaluate {d}/good.csv --by contry", "run: streameval evaluate {d}/good.csv --by country"),
        ("push s {d}/good.csv --segment contry {S}", "good.csv --segment country --server"),
        ("push s {d}/good.csv --weight w {S}", "good.csv --weight COLUMN --server"),
        ("evaluate {d}/semicolons.csv", "give --delimiter ';'"),
        ("evaluate {d}/twice.csv", "rename one"),
    ],
    "value": [
        ("evaluate {d}/nan.csv", "leave such rows out, or replace the value"),
        (
            "push s {d}/text.csv {S}",
            "run: streameval push s {d}/text.csv {S} --rejects rejects.ndjson",
        ),
        ("evaluate {d}/three.csv", "declare --positive"),
        ("push s {d}/words.csv --time at {S}", "write ISO 8601"),
        ("push s {d}/old.csv --time at {S}", "run streameval streams update s --retention"),
        ("push s {d}/negatives.csv {S}", "give --allow-no-positives"),
    ],
    "option": [
        ("query s --windo 1h", "Try 'streameval query --help' for help."),
        ("quary s", "Did you mean 'query'?"),
        ("query {grpc} s", "run: streameval query s --server {grpc}"),
        ("push {d}/good.csv", "such as: streameval push fraud/v3 {d}/good.csv"),
        ("push --server x", "For instance: streameval push fraud/v3 FILE --server x:50051"),
        ("evaluate {d}/good.csv --resolution 99", "Try 'streameval evaluate --help'"),
        ("evaluate {d}/good.csv --by country --metric auc", "run: streameval evaluate --help"),
        ("push s {d}/good.csv --pane 1h {S}", "--pane needs --create"),
        ("admin hash --until 1 {S}", "give --data DIRECTORY"),
        ("compare s bare --by country {S}", "give --paired, too"),
    ],
    "window": [
        ("query s --window 1x {S}", "use a span such as 90s, 15m, 1h or 7d"),
        ("report s -o r.html --from 2026-11-01 {S}", "give both --from and --to"),
        ("marks add s deploy --at noon {S}", "write ISO 8601"),
        ("streams create n --label-ttl 60d {S}", "run: streameval streams create --help"),
    ],
    "segment": [
        ("query s --segment US {S}", "use key=value, for instance country=US"),
        ("query s --segment contry=US {S}", "it declares country; run: streameval query --help"),
        (
            "push bare {d}/good.csv --segment country {S}",
            "run streameval streams update bare --segment country {S}",
        ),
    ],
    "name": [
        ("query no/such {S}", "run: streameval streams list {S}"),
        ("streams create s {S}", "run: streameval streams list {S}"),
        ("streams create 'bad name' {S}", "run: streameval streams create --help"),
        ("pairs show no/such {S}", "run: streameval pairs list {S}"),
        ("compare s bare --paired {S}", "run: streameval pairs create s bare {S}"),
        ("alarms ack s 3 {S}", "run: streameval alarms show s {S}"),
        ("marks delete s 9 {S}", "run: streameval marks list s {S}"),
        ("alarms declare s --watch auc=0.1 {S}", "run: streameval alarms declare --help"),
        ("sample s --size 5 {S}", "run: streameval sample --help"),
    ],
    "options first": [
        ("{S} query s --segment contry=US", "declares country; run: streameval query --help"),
        ("{S} streams create 'bad name'", "run: streameval streams create --help"),
        ("{S} marks delete {S} s 9", "run: streameval marks list s {S}"),
        ("{S} push s {d}/text.csv", "run: streameval {S} push s {d}/text.csv --rejects"),
        ("{grpc} streams list --json", "run: streameval streams list --json --server {grpc}"),
        ("{S} evaluate {d}/good.csv", "streameval evaluate asks no server: leave out --server"),
        ("--tls serve --print-config", "streameval serve asks no server: leave out --tls"),
        ("serve {grpc}", "run: streameval serve --listen {grpc}"),
    ],
    "server": [
        ("query s --server 127.0.0.1:1", "run: streameval serve --listen 127.0.0.1:1"),
        ("query s --server {page}", "gRPC is on {grpc}; run: streameval query s {S}"),
        ("query s --server https://{grpc}", "run: streameval query s {S}"),
        ("query s --server x:port", "for instance --server 127.0.0.1:50051"),
    ],
    "token": [
        ("query s {T}", "run: streameval query s {T} --token-file FILE"),
        ("query s {T} --token-file {d}/unknown", "run: streameval admin token NAME"),
        ("query s {T} --token-file {d}/blank", "--token-file: {d}/blank is empty"),
        ("admin status {T} --token-file {d}/reader", "tokens.toml --scope admin"),
        ("query s {T} --token-file {d}/fraud", "run: streameval admin token NAME"),
        (
            "query s --server 192.0.2.1 --token-file {d}/reader",
            "give --root-certificates, or --tls",
        ),
    ],
    "settings": [
        ("serve --config {d}/wrong.toml", "did you mean 'listen'?"),
        ("serve --config {d}/broken.toml", "run: streameval serve --help"),
        ("serve --listen x", "run: streameval serve --help"),
        ("serve --listen 0.0.0.0:1", "or allow it with --insecure"),
        ("admin token a --tokens {d}/new --scope all", "run: streameval admin token --help"),
        ("admin token reader --tokens {d}/tokens.toml --scope query", "choose another, or delete"),
        (
            "mapping try {d}/mapping.toml --sample {d}/half.json",
            "run: streameval mapping try --help",
        ),
    ],
    "data": [
        ("admin import {d}/no-export.sve {S}", "run: streameval admin import --help"),
        ("admin verify --data {d}/nowhere", "'streameval serve --print-config'"),
        ("admin restore {d}/no-export.sve --data {d}/new", "restore a backup"),
        ("admin backup {d}/good.csv {S}", "move it, or write to another name"),
    ],
}


@pytest.mark.parametrize(
    ("line", "remedy"),
    [each for kind in MISUSE.values() for each in kind],
    ids=[f"{kind}-{each[0]}" for kind, found in MISUSE.items() for each in found],
)
def test_the_message_says_what_to_do(places: dict[str, object], line: str, remedy: str) -> None:
    """In one line, or with the usage before it; what is to run names the server as it was given."""
    words = line.format(**places).replace("'bad name'", "bad\0name").split()
    code, _, errors = outcome(*(each.replace("\0", " ") for each in words))
    assert code in {1, 2}
    assert remedy.format(**places) in " ".join(errors.split()), errors


def test_an_option_that_there_is_not_makes_no_server_of_a_stream() -> None:
    """Only an argument that is one too many may be an address."""
    for line in (
        *("query fraud:3 --windw 1h", "query fraud:3 --window", "top fraud:3 --limit x"),
        "evaluate fraud:3",
    ):
        code, _, errors = outcome(*line.split())
        assert (code, "--server" in errors) == (2, False), errors
    _, _, errors = outcome("streams", "eval:1", "list")
    assert errors.count("streameval streams list --server eval:1") == 1
