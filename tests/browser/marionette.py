"""Drives Debian's Firefox by its own protocol, Marionette, over loopback; needs no driver.

A command is ``[0, number, name, parameters]`` in JSON, after its length and a colon; the answer
is ``[1, number, error, result]``. The commands are WebDriver's.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 60
_PREFERENCES = {
    "marionette.port": 0,  # a free one, which the profile names
    "browser.download.folderList": 2,
    "browser.download.always_ask_before_handling_new_types": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.normandy.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "toolkit.telemetry.server": "",
}
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_ERRORS = """
    return Services.console.getMessageArray()
        .filter(each => each instanceof Ci.nsIScriptError)
        .filter(each => each.sourceName.startsWith(arguments[0]) || /CSP/.test(each.category))
        // Firefox ends the scripts of a page that is left, and calls that a timeout.
        .filter(each => !each.errorMessage.startsWith("Script terminated by timeout"))
        .map(each => `${each.errorMessage} (${each.sourceName}:${each.lineNumber})`);
"""


class FirefoxError(Exception):
    """A command failed."""


class Firefox:
    """One window.

    Parameters
    ----------
    port
        Where Marionette listens.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._number = 0
        self._read()  # its greeting
        self.ask("WebDriver:NewSession", capabilities={"alwaysMatch": {}})

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def ask(self, name: str, **parameters: Any) -> Any:
        """Run a command."""
        self._number += 1
        text = json.dumps([0, self._number, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, number, error, result = self._read()
        assert number == self._number
        if error is not None:
            raise FirefoxError(f"{name}: {error['error']}: {error['message']}")
        return result

    def _read(self) -> Any:
        head = b""
        while not head.endswith(b":"):
            head += self._receive(1)
        return json.loads(self._receive(int(head[:-1])))

    def _receive(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._socket.recv(length - len(parts))
            if not part:
                raise FirefoxError("Firefox closed the connection")
            parts += part
        return bytes(parts)

    # --- What tests do ------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Open a page; a change of the fragment alone loads the page anew, too."""
        self.ask("WebDriver:Navigate", url="about:blank")
        self.ask("WebDriver:Navigate", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function's body in the page; return what it returns."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=list(arguments))["value"]

    def wait(self, script: str, *arguments: Any) -> Any:
        """Run a function's body until it returns something true."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within {TIMEOUT_S} s: {script}")

    def text(self, selector: str) -> str:
        """Return an element's text, once there is one."""
        return str(
            self.wait("return document.querySelector(arguments[0])?.textContent.trim()", selector)
        )

    def click(self, selector: str) -> None:
        """Click the middle of an element, as a person does."""
        self.ask("WebDriver:ElementClick", id=self._element(selector))

    def type(self, selector: str, text: str) -> None:
        """Press keys in an element."""
        self.ask("WebDriver:ElementSendKeys", id=self._element(selector), text=text)

    def _element(self, selector: str) -> str:
        found = self.ask("WebDriver:FindElement", using="css selector", value=selector)
        return str(found["value"][_ELEMENT])

    def resize(self, width: int, height: int) -> None:
        """Give the page a size."""
        chrome = self.run("return [outerWidth - innerWidth, outerHeight - innerHeight]")
        self.ask("WebDriver:SetWindowRect", width=width + chrome[0], height=height + chrome[1])

    def errors(self, source: str) -> list[str]:
        """Return the errors and warnings of scripts and policies whose source begins so."""
        self.ask("Marionette:SetContext", value="chrome")
        try:
            return list(self.run(_ERRORS, source))
        finally:
            self.ask("Marionette:SetContext", value="content")


@contextmanager
def firefox(executable: str, directory: Path) -> Iterator[Firefox]:
    """Start Firefox with a new profile in a directory; files are saved there, in ``saved``."""
    profile, saved = directory / "profile", directory / "saved"
    profile.mkdir()
    saved.mkdir()
    preferences = _PREFERENCES | {"browser.download.dir": str(saved)}
    (profile / "user.js").write_text(
        "".join(
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in preferences.items()
        )
    )
    command = (executable, "--headless", "--marionette", "--no-remote")
    with subprocess.Popen(
        (*command, "--remote-allow-system-access", "--profile", profile),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            with closing(Firefox(_port(profile, process))) as window:
                yield window
        finally:
            process.terminate()


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    file = profile / "MarionetteActivePort"
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.05)
    raise FirefoxError(f"Firefox did not start within {TIMEOUT_S} s")
