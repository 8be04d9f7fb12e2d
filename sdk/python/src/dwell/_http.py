"""One connection to a server."""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import time
from typing import Any, Dict, Optional, Tuple
from urllib.parse import urlsplit

from ._errors import DwellError, Lost, NotDwell, Problem, Unreachable

#: Seconds after which a connection that rested is not used again: the server closes it at some time.
REST = 60.0


class Server:
    """Where a server is, and what it asks for."""

    def __init__(self, url: str, token: Optional[str], timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f'"{url}" is not the address of a server; try "http://127.0.0.1:3935"')
        if parts.username or parts.password:
            raise ValueError("a user cannot log in; show a token instead")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ValueError("the token must be printable ASCII")
        self.url = url.rstrip("/")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port
        self.prefix = parts.path.rstrip("/")
        self.timeout = timeout
        self.headers: Dict[str, str] = {"user-agent": "dwell-python/0.1.0"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"


class Connection:
    """A connection that is kept. One thread uses it at a time; another may abort it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._http: Optional[http.client.HTTPConnection] = None
        self._used_at = 0.0
        self._aborted = False

    def call(self, method: str, path: str, body: Any, headers: Dict[str, str], wait: float) -> Any:
        """Sends a request and reads the answer. ``body`` is sent as JSON unless it is ``None``."""
        headers = {**self.server.headers, **headers}
        data: Optional[bytes] = None
        if body is not None:
            data = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
            headers["content-type"] = "application/json"
        connection = self._open()
        if connection.sock is not None:
            connection.sock.settimeout(self.server.timeout + wait)
        try:
            connection.request(method, self.server.prefix + path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Lost(
                f"no answer from {self.server.url}: {_reason(error)}; it may have been done all the same"
            ) from error
        except BaseException:
            # What is left of the answer must not be taken for that of the next request.
            self.close()
            raise
        self._used_at = time.monotonic()
        return self._answer(response.status, response.getheader("content-type") or "", text)

    def _answer(self, status: int, kind: str, text: bytes) -> Any:
        try:
            value = json.loads(text) if text else None
            readable = True
        except ValueError:
            value, readable = None, False
        if 200 <= status < 300 and readable:
            return value
        if kind.startswith("application/problem+json") and isinstance(value, dict):
            raise Problem(value)
        if status in (502, 503, 504):
            raise Unreachable(f"cannot reach {self.server.url}: what stands before it answers {status}")
        raise NotDwell(f"{self.server.url} is not a Dwell server: it answers {status}")

    def _open(self) -> http.client.HTTPConnection:
        if self._aborted:
            raise Unreachable("the connection was given up")
        if self._http is not None and (time.monotonic() - self._used_at > REST or self._is_closed(self._http)):
            self.close()
        if self._http is None:
            server = self.server
            if server.secure:
                context = ssl.create_default_context()
                made: http.client.HTTPConnection = http.client.HTTPSConnection(
                    server.host, server.port, timeout=server.timeout, context=context
                )
            else:
                made = http.client.HTTPConnection(server.host, server.port, timeout=server.timeout)
            try:
                made.connect()
                made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                made.close()
                raise Unreachable(f"cannot reach {server.url}: {_reason(error)}") from error
            self._http = made
            if self._aborted:
                self.close()
                raise Unreachable("the connection was given up")
        return self._http

    @staticmethod
    def _is_closed(connection: http.client.HTTPConnection) -> bool:
        """Whether the other side has closed it: nothing but that can be there to read between two requests."""
        if connection.sock is None:
            return True
        readable: Tuple[Any, Any, Any] = select.select([connection.sock], [], [], 0)
        return bool(readable[0])

    def abort(self) -> None:
        """Ends it for ever, also under a thread that waits for an answer."""
        self._aborted = True
        connection = self._http
        sock = connection.sock if connection is not None else None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # It was closed already.

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def __del__(self) -> None:
        # With the thread, or the client, that it belonged to.
        self.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return str(error) or type(error).__name__


__all__ = ["Connection", "DwellError", "Server"]
