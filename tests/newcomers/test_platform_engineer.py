"""A platform engineer: a server, a client and a query; then certificates and tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ..pages import blocks
from .conftest import ROOT, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Newcomer

pytestmark = pytest.mark.heavy

START = (ROOT / "docs" / "start-serve.md").read_text()
SERVER = (ROOT / "docs" / "server.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
SERVING = r"listening on (\S+)\n"


def told(page: str, command: str) -> str:
    """Return a command that a page has as a line, without the prompt."""
    assert re.search(rf"^(\$ )?{re.escape(command)}( +#.*)?$", page, re.MULTILINE), command
    return command


def test_a_server_for_every_model(
    newcomer: Newcomer, report: Callable[[str, float], None], free_port: Callable[[], int]
) -> None:
    """Serve, log, label, query, in this order, as the page has them; ports are free ones."""
    newcomer.install(START)
    newcomer.environment["STREAMEVAL_LISTEN"] = f"127.0.0.1:{free_port()}"
    newcomer.environment["STREAMEVAL_HTTP"] = f"127.0.0.1:{free_port()}"
    serve = told(START, "streameval serve").split()
    with newcomer.running(*serve, says=SERVING) as started:
        here = START.replace("127.0.0.1:50051", started[1])
        newcomer.environment["STREAMEVAL_SERVER"] = started[1]
        newcomer.python(program(here))
        report("platform engineer, AUC-PR from a server", newcomer.minutes())
        (console,) = (each.code for each in blocks(here) if each.language == "console")
        query, _, _ = console.removeprefix("$ ").partition("\n")
        printed = newcomer.run(*query.split())
        shown = re.search(r"AUC-ROC +1\.000000 +0\.\d+ to 1\.0000", console)
        assert shown, console
        assert shown[0] in printed, printed


@pytest.mark.nightly
def test_certificates_and_tokens(
    newcomer: Newcomer, free_port: Callable[[], int], require_command: Callable[[str], str]
) -> None:
    """The page on the server: an authority, a certificate, a token, and a query with both."""
    require_command("openssl")
    newcomer.install(START)
    (made,) = (each.code for each in blocks(SERVER) if each.needs == "openssl")
    newcomer.run("sh", "-ec", re.sub(r"^\$ ", "", made, flags=re.MULTILINE))
    token = "streameval admin token web-1 --tokens tokens.toml --scope ingest --scope query"
    newcomer.run("sh", "-c", told(SERVER, f"{token} > token"))
    newcomer.run(
        "sh", "-c", f"{token.replace('web-1', 'ops').replace('ingest', 'admin')} > ops.token"
    )
    serve = told(
        SERVER,
        "streameval serve --listen 0.0.0.0:50051 --tls-certificate tls.crt --tls-key tls.key "
        "--tokens tokens.toml",
    ).replace("50051", str(free_port()))
    newcomer.environment["STREAMEVAL_HTTP"] = f"127.0.0.1:{free_port()}"
    newcomer.environment["STREAMEVAL_DATA"] = "guarded"  # the other test's server has its own
    with newcomer.running(*serve.split(), says=SERVING) as started:
        address = "localhost:" + started[1].rpartition(":")[2]

        def run(page: str, command: str, *more: str) -> str:
            line = told(page, command).replace("eval.example.org:50051", address)
            return newcomer.run(*line.split(), *more)

        newcomer.environment["STREAMEVAL_SERVER"] = address
        connection = ("--root-certificates", "ca.crt", "--token-file", "ops.token")
        create = "streameval streams create fraud/v3"
        for command in (
            f"{create} --pane 1h --retention 2y --segment country",
            "streameval streams list --prefix fraud/",
        ):
            assert "fraud/v3" in run(OPERATIONS, command, *connection)
        # The page's client, with the names of the files that its other blocks made.
        (client,) = (each.code for each in blocks(SERVER) if each.needs == "tls")
        client = re.sub(r'\n    client_certificate="client.pem".*\n', "\n", client)
        client = client.replace("eval.example.org:50051", address).replace("ca.pem", "ca.crt")
        sent = [
            client.replace("/run/secrets/streameval", "token"),
            'stream = client.stream("fraud/v3")',
            "stream.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.1])",
            "stream.flush()",
            "client.close()",
        ]
        newcomer.python("\n".join(sent))
        query = "streameval query fraud/v3 --root-certificates ca.crt --token-file token"
        printed = run(SERVER, f"{query} --server eval.example.org:50051")
        assert re.search(r"Positives +2 *\nNegatives +2 *\n", printed), printed
        assert "SERVING" in newcomer.run("streameval", "health", "--root-certificates", "ca.crt")
