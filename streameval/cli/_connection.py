"""The options that say how to connect to a server; imports nothing slow, for ``health``."""

from __future__ import annotations

import os
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_VARIABLE = "STREAMEVAL_TOKEN"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class Connection:
    """The values of the options before the command."""

    token_file: Path | None = None
    tls: bool = False
    root_certificates: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether to connect with TLS: each certificate option turns it on."""
        pems = (self.root_certificates, self.client_certificate, self.client_key)
        return self.tls or any(pem is not None for pem in pems)

    def token(self) -> str | None:
        """Return the token; it is not an option, because other users can see those."""
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StreamEvalError(f"cannot read {self.token_file}: {error}") from error


current_connection: ContextVar[Connection] = ContextVar("streameval_connection")
"""The connection options of this command line."""
