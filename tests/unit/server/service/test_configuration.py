"""Settings: precedence of sources, refused values, printing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streameval_server import Configuration, Limits, Settings, SettingsError, configure
from streameval_server._service.configuration import FLAGS

from ....pages import codes

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUES: dict[str, tuple[object, str, object]] = {
    # name: (as a flag, as a variable, in a file)
    "listen": ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"),
    "memory": (True, "yes", True),
    "stop_grace": ("1.5s", "2.5s", "1m"),
    "metrics_window": ("10m", "24h", "7d"),
    "limits.max_query": ("10s", "1m", "90s"),
    "log_format": ("json", "json", "json"),
    "auto_create": (False, "0", False),
    "limits.max_streams": (1, "2", 3),
}


def toml(values: Mapping[str, object]) -> str:
    """Return values as a TOML file."""
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for name, value in values.items()
    ]
    return "\n".join(lines)


def limits_of(made: Configuration) -> dict[str, object]:
    """Return the limits that are settings."""
    names = [name for name in made.sources if name.startswith("limits.")]
    return {name.removeprefix("limits."): value(made, name) for name in names}


def value(configuration: Configuration, name: str) -> object:
    """Return one setting."""
    found: Any = configuration.settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", VALUES)
def test_flags_come_before_variables_before_the_file(name: str, tmp_path: Path) -> None:
    """Each value comes from the first source that has one, and the source is reported."""
    file = tmp_path / "streameval.toml"
    flag, variable, in_file = VALUES[name]
    variable_name = "STREAMEVAL_" + name.replace(".", "_").upper()
    flag_name = "--" + name.rpartition(".")[2].replace("_", "-")
    expected = {
        flag_name: type(in_file)(flag),
        variable_name: {"yes": True, "0": False}.get(variable, type(in_file)(variable)),
        str(file): in_file,
    }
    default = value(Configuration(Settings(), {}), name)
    for given in range(8):
        file.write_text(toml({name: in_file} if given & 1 else {}))
        environment = {variable_name: variable if given & 2 else ""}
        made = configure({name: flag if given & 4 else None}, config=file, environment=environment)
        source = made.sources[name]
        if given & 4:
            assert source == flag_name
        elif given & 2:
            assert source == variable_name
        else:
            assert source == (str(file) if given & 1 else "default")
        found = value(made, name)
        assert found == expected.get(source, default)
        assert type(found) is type(default)
        others = {other for name_, other in made.sources.items() if name_ != name}
        assert others == {"default"}


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    """In other sources to the current directory; ~ is the user's home."""
    file = tmp_path / "streameval.toml"
    file.write_text("data = 'data'\ntokens = '/etc/tokens.toml'\n")
    settings = configure({}, environment={"STREAMEVAL_CONFIG": str(file)}).settings
    assert (settings.data, settings.tokens) == (tmp_path / "data", Path("/etc/tokens.toml"))
    settings = configure({"data": "~/x"}, environment={"STREAMEVAL_TOKENS": "t.toml"}).settings
    assert (settings.data, settings.tokens) == (Path.home() / "x", Path("t.toml"))


def test_the_command_line_names_the_file_before_the_environment(tmp_path: Path) -> None:
    """Only one of two files is read."""
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text("memory = true")
    two.write_text("listen = '127.0.0.1:7'")
    made = configure({}, config=one, environment={"STREAMEVAL_CONFIG": str(two)})
    assert made.settings == Settings(memory=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("listn = 'x'", "there is no setting 'listn'; did you mean 'listen'?"),
        ("[limits]\nrows = 1", "there is no setting 'limits.rows'"),
        ("[else]\nx = 1", "there is no setting 'else.x'"),
        ("limits = 1", "there is no setting 'limits'"),
        ("listen = 7", "listen must be text, got 7"),
        ("memory = 'maybe'", "memory must be true or false, got 'maybe'"),
        ("data = 7", "data must be a path, got 7"),
        ("log_format = 'xml'", "log_format must be text or json, got 'xml'"),
        ("stop_grace = 3.5", "stop_grace must be a span of time such as 90s, 15m or 24h, got 3.5"),
        ("[limits]\nmax_future = '5'", "limits.max_future must be a span of time such as 90s, 15m"),
        ("[limits]\napply_rows = 5", "there is no setting 'limits.apply_rows'"),
        ("[limits]\nmax_streams = 1.5", "limits.max_streams must be a whole number, got 1.5"),
        ("[limits]\nmax_streams = inf", "limits.max_streams must be a whole number, got inf"),
        ("[limits]\nmax_streams = []", "limits.max_streams must be a whole number, got []"),
        ("[limits", "cannot read the settings in"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The error names the file and a similar setting."""
    file = tmp_path / "streameval.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        configure({}, config=file, environment={})
    assert problem in str(caught.value)
    assert str(file) in str(caught.value)


def test_other_sources_name_themselves() -> None:
    """The error names the variable or flag; other programs' variables are not read."""
    with pytest.raises(SettingsError, match=r"^STREAMEVAL_LIMITS_MAX_STREAMS: .* got 'many'$"):
        configure({}, environment={"STREAMEVAL_LIMITS_MAX_STREAMS": "many"})
    with pytest.raises(SettingsError, match=r"^--stop-grace: stop_grace must be a span of"):
        configure({"stop_grace": "soon"}, environment={})
    with pytest.raises(SettingsError, match=r"^the command line: there is no setting 'x'"):
        configure({"x": 1}, environment={})
    with pytest.raises(SettingsError, match="cannot read the settings in /nowhere/x"):
        configure({}, environment={"STREAMEVAL_CONFIG": "/nowhere/x"})
    # Variables that a platform sets for a service of this name, and the client's.
    foreign = {"STREAMEVAL_PORT": "tcp://10.0.0.7:50051", "STREAMEVAL_TOKEN": "sv1.x.y"}
    assert configure({}, environment=foreign).settings == Settings()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"stop_grace": "-1s"}, "stop_grace must be a span of time such as 90s, 15m or 24h"),
        ({"stop_grace": "999999999y"}, "stop_grace must be a span of time such as 90s, 15m or 24h"),
        ({"metrics_window": "0.5s"}, "metrics_window must be from 1s to 366d, got 0.5s"),
        ({"metrics_window": "2y"}, "metrics_window must be from 1s to 366d, got 2y"),
        ({"limits.max_streams": "0"}, "limits.max_streams must be at least 1, got 0"),
        ({"limits.max_state_bytes": "-1"}, "limits.max_state_bytes must be at least 0, got -1"),
        ({"listen": "0.0.0.0:1"}, "refusing to listen on 0.0.0.0"),
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, str], problem: str) -> None:
    """From any source."""
    with pytest.raises(SettingsError) as caught:
        configure(wrong, environment={})
    assert problem in str(caught.value)


def test_what_is_printed_is_a_file_that_says_the_same(tmp_path: Path) -> None:
    """Every setting is printed once, with its source; the output parses to the same settings."""
    pem = tmp_path / 'a "quoted" \\ \x7f ümlaut 😀.pem'
    flags = {"listen": "0.0.0.0:7", "tls_certificate": pem, "tls_key": pem, "tokens": pem}
    environment = {"STREAMEVAL_LIMITS_MAX_STREAMS": "5", "STREAMEVAL_LOG_LEVEL": "info"}
    made = configure(flags, environment=environment)
    text = str(made)
    file = tmp_path / "again.toml"
    file.write_text(text, encoding="utf-8")
    assert configure({}, config=file, environment={}).settings == made.settings
    content = tomllib.loads(text)
    settings = asdict(made.settings)
    assert content["limits"] == limits_of(made)
    told = set(content) | set(re.findall(r"^# (\w+) is not set", text, re.MULTILINE))
    assert told == set(settings)
    assert re.search(r"^listen = .* # --listen$", text, re.MULTILINE)
    assert re.search(r"^max_streams = 5 +# STREAMEVAL_LIMITS_MAX_STREAMS$", text, re.MULTILINE)
    assert re.search(r"^max_batch_rows = 65536 +# default$", text, re.MULTILINE)


INGEST = """
intake = "127.0.0.1:0"
intake_streams = ["fraud", "shop/v1"]

[[ingest]]
preset = "kserve-v2"
stream = "fraud/{inferenceservicename}"
class = 0
segments = { "shop" = "headers.\\"namespace\\"" }

[[ingest]]
stream = "shop/v1"
label = "body.label"
id = "body.id"
positive = "fraud"
"""


def test_mappings_of_payloads_are_in_the_file(tmp_path: Path) -> None:
    """Read from tables, printed as tables that say the same; lists of names from commas too."""
    file = tmp_path / "server.toml"
    file.write_text(INGEST)
    made = configure({}, config=file, environment={})
    assert [each.stream for each in made.settings.ingest] == [
        "fraud/{inferenceservicename}",
        "shop/v1",
    ]
    assert made.settings.intake_streams == ("fraud", "shop/v1")
    again = tmp_path / "again.toml"
    again.write_text(str(made))
    assert configure({}, config=again, environment={}).settings == made.settings
    names = {"STREAMEVAL_INTAKE_STREAMS": "fraud, shop/v1"}
    assert configure({}, config=file, environment=names).settings == made.settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ingest = 3", "ingest must be tables: [[ingest]]"),
        (
            "[[ingest]]\nstream = 's'\nscore = 'body.p'\nid = 'body['",
            "ingest 1: id is not a JMESPath expression",
        ),
        ("intake = 'x'", "intake must be HOST:PORT"),
        ("intake = '127.0.0.1:0'", "intake needs mappings"),
        ("intake_streams = 'a//b'", "intake_streams: stream name must be"),
        ("intake_streams = [1]", "intake_streams must be a list of names, got [1]"),
        ("[limits]\nmax_intake_rows_per_s = 0", "max_intake_rows_per_s must be at least 1, got 0"),
        (
            "intake = '127.0.0.1:0'\n[[ingest]]\nstream = 's'\npreset = 'ndjson'",
            "intake needs intake_streams",
        ),
    ],
)
def test_wrong_mappings_and_intakes(tmp_path: Path, text: str, problem: str) -> None:
    """Each in one line that names the table, the key, or what is missing."""
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        configure({}, config=file, environment={})
    assert problem in str(caught.value)


def test_no_secret_is_printed(tmp_path: Path) -> None:
    """Settings name files with secrets without reading them; tokens in values are redacted."""
    secret = "K3jd93-sK3jd93-sK3jd93-s"
    file = tmp_path / "key.pem"
    file.write_text(secret)
    made = configure(
        {"tls_certificate": file, "tls_key": file, "tokens": f"sv1.web-1.{secret}"}, environment={}
    )
    assert secret not in str(made)
    assert "sv1.web-1." in str(made)


@pytest.mark.slow
def test_the_module_prints_and_refuses_too(tmp_path: Path) -> None:
    """Python -m streameval_server has the same flags."""
    command = (sys.executable, "-m", "streameval_server", "--print-config")
    done = subprocess.run(
        [*command, "--no-auto-create", "--max-state-bytes", "7", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    content = tomllib.loads(done.stdout)
    assert content["auto_create"] is False
    assert content["data"] == str(tmp_path)
    assert content["limits"]["max_state_bytes"] == 7
    done = subprocess.run(
        [*command, "--log-level", "loud"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streameval_server: --log-level: log_level must be debug or")


@pytest.mark.parametrize("module", ["streameval", "streameval_server"])
@pytest.mark.slow
def test_a_console_prints_what_it_cannot_show_as_escapes(module: str, tmp_path: Path) -> None:
    """Of TOML, so that the settings can be read from what was printed."""
    file = tmp_path / "settings \u00fc.toml"
    file.write_text('data = "daten \u00fc \u6771 \U0001f600"\n', encoding="utf-8-sig")
    command = [sys.executable, "-m", module, "--config", str(file), "--print-config"]
    if module == "streameval":
        command.insert(3, "serve")
    for encoding in ("ascii", "cp1252", "utf-8"):
        done = subprocess.run(
            command,
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        )
        shown = done.stdout.decode(encoding)
        assert tomllib.loads(shown)["data"] == str(tmp_path / "daten \u00fc \u6771 \U0001f600")
        assert ("\\U0001f600" in shown) == (encoding != "utf-8")
        assert ("\\u00fc" in shown) == (encoding == "ascii")


def test_a_home_that_is_not_known_is_said() -> None:
    """With the source of the path, and what to write."""
    with pytest.raises(SettingsError) as caught:
        configure({"data": "~a-name-of-no-user/x"}, environment={})
    assert str(caught.value) == (
        "--data: data begins with ~, and that home directory is not known, got "
        "'~a-name-of-no-user/x': write the whole path"
    )


def test_the_page_lists_every_setting() -> None:
    """With its default in TOML; the example of a file is valid."""
    page = (Path(__file__).parents[4] / "docs" / "server.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    made = configure({}, environment={})
    for name in made.sources:
        if "." in name:
            continue
        key = "[[ingest]]" if name == "ingest" else name
        (default,) = (row[2].strip() for row in rows if f"`{key}`" in row[1])
        shown = value(made, name)
        if name != "ingest" and shown is not None:
            assert default == f"`{list(shown) if isinstance(shown, tuple) else str(shown).lower()}`"
    (example,) = codes(page, "toml")
    content = tomllib.loads(example)
    assert content.pop("limits").keys() <= limits_of(made).keys()
    assert content.keys() <= made.sources.keys()


def test_the_page_of_limits_has_each_with_its_default() -> None:
    """In the order of the class, which says what they mean; none besides them is a setting."""
    page = (Path(__file__).parents[4] / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE)
    limits = limits_of(configure({}, environment={}))
    assert rows == [(name, str(default)) for name, default in limits.items()]
    assert limits.keys() < asdict(Limits()).keys()


def test_every_setting_can_be_set() -> None:
    """Every flag has a setting; what needs a table of the file has no flag, nor has a limit."""
    sources = configure({}, environment={}).sources
    assert FLAGS.keys() <= sources.keys()
    assert {name for name in sources if "." not in name} - FLAGS.keys() == {
        *("ingest", "intake", "intake_streams", "webhook", "webhook_secret")
    }


def test_a_span_may_be_a_timedelta() -> None:
    """In a program; what is printed is a text that says the same."""
    for span, text in ((1_500_000, "1.5s"), (1, "0.000001s"), (3_600_000_000, "3600s")):
        settings = Settings(stop_grace=timedelta(microseconds=span), metrics_window="24h")
        assert (settings.stop_grace_s, settings.metrics_window_s) == (span / 1e6, 86_400)
        printed = str(Configuration(settings, configure({}, environment={}).sources))
        assert tomllib.loads(printed)["stop_grace"] == text
        assert Settings(stop_grace=text).stop_grace_s == settings.stop_grace_s
    with pytest.raises(SettingsError, match="stop_grace must be a timedelta, got 5"):
        Settings(stop_grace=5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"limits.max_query '30': use a span"):
        Settings(limits=Limits(max_query="30"))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"stop_grace": timedelta(-1)}, "stop_grace must be more than 0s and at most 100y"),
        ({"stop_grace": "0.0000001s"}, "stop_grace '0.0000001s': use a span such as 90s"),
        ({"metrics_window": timedelta(0)}, "metrics_window must be more than 0s"),
        ({"limits": Limits(max_query=timedelta(0))}, "limits.max_query must be more than 0s"),
        ({"limits": Limits(max_future="101y")}, "limits.max_future must be .* at most 100y, got"),
        ({"limits": Limits(max_future=5)}, "limits.max_future must be a timedelta, got 5; or"),
        ({"limits": Limits(max_streams="5")}, "limits.max_streams must be at least 1, got '5'"),
        ({"limits": Limits(max_streams=None)}, "limits.max_streams must be at least 1, got None"),
    ],
)
def test_a_program_gets_what_cannot_be_when_it_gives_it(settings: Any, problem: str) -> None:
    """Not with the first query or batch: a span below zero, one too long, another type."""
    with pytest.raises(SettingsError, match=problem):
        Settings(**settings)
