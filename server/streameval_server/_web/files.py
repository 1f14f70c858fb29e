"""The page's files: read once, sent plain or compressed, or as 304 when they are unchanged.

Only files that existed at the start are served: no request is turned into a path on
the disk.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING

from starlette.responses import Response

from streameval_server._model.errors import Code, RequestError
from streameval_server._web.error_responses import error_response
from streameval_server._web.metrics_script import MODULE_PATH, metrics_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

_COMPRESSED = (".js", ".css", ".html", ".svg", ".json", ".txt")
# Fixed here, because systems' own tables of types differ.
_TYPES = {".js": "text/javascript", ".woff2": "font/woff2"}


@dataclass(frozen=True)
class _File:
    content: bytes
    kind: str
    compresses: bool

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)


class Files:
    """The files below ``static``, by path; O(bytes) once."""

    def __init__(self) -> None:
        root = resources.files(__package__) / "static"
        self._files = dict(_read_files(root)) if root.is_dir() else {}
        self._files[MODULE_PATH] = _File(metrics_module(), _TYPES[".js"], compresses=True)

    async def index(self, request: Request) -> Response:
        """Answer with the page."""
        return await self._response(request, "index.html")

    async def file(self, request: Request) -> Response:
        """Answer with the file that the path names."""
        return await self._response(request, request.path_params["path"])

    async def _response(self, request: Request, path: str) -> Response:
        file = self._files.get(path)
        if file is None:
            error = RequestError(Code.NOT_FOUND, "there is no such file", reason="NO_FILE")
            return error_response(error)
        headers = {"cache-control": "no-cache", "etag": file.tag, "vary": "accept-encoding"}
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        content = file.content
        if file.compresses and "gzip" in request.headers.get("accept-encoding", ""):
            content = await asyncio.to_thread(lambda: file.compressed)
            headers["content-encoding"] = "gzip"
        return Response(content, headers=headers, media_type=file.kind)


def _read_files(directory: Traversable, prefix: str = "") -> Iterator[tuple[str, _File]]:
    for entry in directory.iterdir():
        path = prefix + entry.name
        if entry.is_dir():
            yield from _read_files(entry, f"{path}/")
            continue
        suffix = "." + entry.name.rpartition(".")[2]
        kind = _TYPES.get(suffix) or mimetypes.guess_type(entry.name)[0]
        yield path, _File(entry.read_bytes(), kind or "text/plain", suffix in _COMPRESSED)
