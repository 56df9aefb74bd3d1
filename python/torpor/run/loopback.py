# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A server for this machine alone.

It listens on the loopback address, and refuses requests for another host's name, which another
site could send through a browser.
"""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torpor._engine import __version__

ADDRESS = "127.0.0.1"
#: Connections at a time; a browser opens six.
_CONNECTIONS = 32
#: Time limit for a request to arrive, and for a piece of the answer to be taken.
_REQUEST_S = 10
_HTML = "text/html; charset=utf-8"


class Answer(NamedTuple):
    """Answer to a request."""

    status: int
    body: str
    headers: Mapping[str, str] = {}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET and HEAD, and refuses all else."""

    server_version = f"Torpor/{__version__}"
    sys_version = ""
    #: Time limit of each piece that is read or written.
    timeout = _REQUEST_S
    server: Server

    def do_GET(self) -> None:
        self._respond(has_body=True)

    def do_HEAD(self) -> None:
        self._respond(has_body=False)

    def _respond(self, *, has_body: bool) -> None:
        self.server.arrived(self.connection)
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host in (ADDRESS, "localhost"):
            answer = self.server.answer(self.path)
        else:
            answer = Answer(421, "This is for this machine alone.")
        # Half of a UTF-16 pair is how a name has a byte that is no text.
        body = answer.body.encode("utf-8", "replace")
        self.send_response(answer.status)
        for name, value in ({"Content-Type": _HTML} | dict(answer.headers)).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if has_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the client sees the answer."""


class Server(http.server.ThreadingHTTPServer):
    """Serves so many connections at a time, each of which has so long to say what it wants.

    One that says nothing costs a thread until it is late, or until a new one needs its place.
    """

    #: Connections that the kernel keeps until a thread takes them; with less, a browser's wait.
    request_queue_size = 128

    def __init__(self, answer: Callable[[str], Answer], port: int) -> None:
        """Listen; port 0 is any that is free. ``answer`` gets the path of each request.

        Call ``serve_forever``, and ``shutdown`` from another thread.

        Raises OSError if the port is taken.
        """
        self.answer = answer
        self._lock = threading.Lock()
        #: Until when a request must be there, of those that are not, the oldest first; then those
        #: that are being answered.
        self._waiting: dict[socket.socket, float] = {}
        self._answered: set[socket.socket] = set()
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread, in the place of a silent connection where all places are taken."""
        with self._lock:
            is_full = len(self._waiting) + len(self._answered) >= _CONNECTIONS
            if is_full and not self._waiting:
                is_refused = True
            else:
                is_refused = False
                if is_full:
                    self._drop(next(iter(self._waiting)))
                self._waiting[request] = time.monotonic() + _REQUEST_S
        if is_refused:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def arrived(self, request: socket.socket) -> None:
        """Note that a connection's request is there."""
        with self._lock:
            self._waiting.pop(request, None)
            self._answered.add(request)

    def service_actions(self) -> None:
        """Drop the connections whose request is late; called twice a second."""
        with self._lock:
            now = time.monotonic()
            for request in [each for each, until in self._waiting.items() if until < now]:
                self._drop(request)

    def _drop(self, request: socket.socket) -> None:
        """End a connection; its thread meets the end of the stream, and closes it."""
        self._waiting.pop(request)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and give its place away."""
        with self._lock:
            self._waiting.pop(request, None)
            self._answered.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client may close its connection."""
