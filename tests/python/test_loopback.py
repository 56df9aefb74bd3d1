# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The server of a shadow's findings: who is answered, and what a slow client costs."""

import contextlib
import http.client
import socket
import threading
import time

import pytest

from torpor.run import loopback
from torpor.run.loopback import Answer, Server


@pytest.fixture
def serving():
    """Return a running server, and a function that asks it."""
    with Server(lambda path: Answer(200, f"asked for {path}"), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(path="/", method="GET", host="localhost"):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            connection.request(method, path, headers={"Host": f"{host}:{server.server_port}"})
            return connection.getresponse().status

        yield server, ask
        server.shutdown()


def sent(server, data):
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=20)
    connection.sendall(data)
    return connection


def test_only_this_machine_is_answered(serving):
    _, ask = serving
    assert ask(host="evil.example") == 421
    assert ask(host="127.0.0.1") == 200
    assert loopback.ADDRESS == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_get_and_head_are_answered(serving, method):
    _, ask = serving
    assert ask(method=method) == 501
    assert ask(method="HEAD") == 200


def test_silent_connections_take_no_more_than_their_places(serving):
    server, ask = serving
    threads = threading.active_count()
    silent = [sent(server, b"GET / HT") for _ in range(200)]
    assert ask() == 200
    assert threading.active_count() - threads <= 2 * loopback._CONNECTIONS
    for connection in silent:
        connection.close()


def test_late_request_is_dropped(serving, monkeypatch):
    server, ask = serving
    monkeypatch.setattr(loopback, "_REQUEST_S", 0.2)
    with sent(server, b"GET /") as slow:
        # A byte now and then does not make it wait longer.
        with contextlib.suppress(OSError):
            for _ in range(20):
                time.sleep(0.1)
                slow.sendall(b"x")
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(100) == b""
    assert not server._waiting
    assert ask() == 200
