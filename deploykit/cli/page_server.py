"""The server of `deploykit try`: the files of one folder, for pages on this machine.

It answers on 127.0.0.1 and only if the request names this machine in its Host header. So a page of another site whose
name was made to point here cannot read the model. Folders are not listed; what is no file within the folder is 404.
"""

from __future__ import annotations

import mimetypes
import socket
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from deploykit.engines.web.chromium import ISOLATED

_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    **ISOLATED,
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}
"""Browsers insist on these; the registry of a machine may say something else."""


class _Files(StaticFiles):
    """Files with headers that allow a model to have threads."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


def listening(port: int) -> socket.socket:
    """A socket of this machine at a port, or at a free one for 0. Raises `OSError` if the port cannot be used."""
    return socket.create_server(("127.0.0.1", port))


def serve(folder: Path, page: str, connection: socket.socket) -> None:
    """Serve a folder, with its page at `/`, until SIGINT, which then raises `KeyboardInterrupt`."""
    for ending, media_type in _TYPES.items():
        mimetypes.add_type(media_type, ending)
    routes = [
        Route("/", lambda _: RedirectResponse(f"/{page}", headers=_HEADERS)),
        Mount("/", _Files(directory=folder)),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS, www_redirect=False)
    config = uvicorn.Config(
        Starlette(routes=routes, middleware=[hosts]),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,  # a browser keeps its connections open
    )
    uvicorn.Server(config).run(sockets=[connection])
