"""One request and its answer over a plain socket: the synchronous path of the one-shot commands.

`http.client` would be the natural choice, but its imports take longer than a whole `wakeline send` may take, so this
speaks the little HTTP/1.1 that is needed: one request per connection, an answer with a length or in chunks.  Whatever
streams uses `wakeline.Client`.
"""

from __future__ import annotations

import _socket
import json
import time
from os import urandom

from wakeline.calls import SAFE, refusal
from wakeline.endpoint import invalid, unreachable, unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from wakeline.calls import Call
    from wakeline.endpoint import Endpoint
    from wakeline.errors import WakelineError

    class Connection(Protocol):
        def sendall(self, data: bytes, /) -> None: ...
        def recv(self, size: int, /) -> bytes: ...
        def close(self) -> None: ...


CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
PAUSES = (0.1, 0.3, 1.0, 2.0)  # before each further sending of what is safe to send again
CHUNK = 65_536
CONTINUE, OK, REDIRECTION, REFUSED, UNAVAILABLE = 100, 200, 300, 400, 503


class Lost(ConnectionError):
    """The connection ended before the answer did, so nobody knows what became of the request."""


class Address:
    """A URL taken apart, without the imports of `urllib`."""

    __slots__ = ("authority", "host", "port", "prefix", "secure")

    def __init__(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        self.authority, _, path = rest.partition("/")
        host, colon, port = self.authority.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = self.authority, {"http": "80", "https": "443"}.get(scheme, "")
        if scheme not in ("http", "https") or not host or not port.isdecimal() or "@" in host:
            raise invalid("url", "WAKELINE_URL", f"{url!r} is not of the form http://host:port")
        self.secure = scheme == "https"
        self.host, self.port = host.strip("[]"), int(port)
        self.prefix = f"/{path}".rstrip("/")


def exchange(endpoint: Endpoint, call: Call, *, wait: float = 0.0) -> Any:
    """The answer, or the error that the server answered, or that it could not be reached.

    What is safe to repeat is sent again after a lost connection or a 503, under the same idempotency key.  A server
    that is not there in the first place is reported at once.
    """
    call = call.with_key(urandom(16).hex())
    pauses = iter(PAUSES if call.repeat == SAFE else ())
    was_there = False
    while True:
        try:
            status, content = attempt(endpoint, call, ANSWER_SECONDS + wait)
        except OSError as error:
            failure = _unreachable(endpoint, error)
            again = isinstance(error, Lost) or (was_there and not isinstance(error, TimeoutError))
        else:
            answer = _parse(endpoint, status, content)
            if status < REFUSED:
                return answer
            failure, again = refusal(status, answer), status == UNAVAILABLE
        pause = next(pauses, None)
        if pause is None or not again:
            raise failure
        was_there = True
        time.sleep(pause)


def attempt(endpoint: Endpoint, call: Call, seconds: float) -> tuple[int, bytes]:
    """One sending: the status and the content, whatever they are."""
    prefix, authority = "", "localhost"
    if endpoint.url:
        address = Address(endpoint.url)
        prefix, authority = address.prefix, address.authority
        connection = _connect(address, seconds)
    else:
        connection = _connect_socket(endpoint.socket or "", seconds)
    try:
        _write(connection, _request(call, prefix, authority, endpoint.headers()))
        return _read_answer(_Reader(connection))
    except ConnectionError as error:
        raise Lost(*error.args) from None
    finally:
        connection.close()


def _connect_socket(path: str, seconds: float) -> Connection:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    connection.connect(path)
    connection.settimeout(seconds)
    return connection


def _connect(address: Address, seconds: float) -> Connection:
    problem: OSError | None = None
    for family, kind, protocol, _, place in _socket.getaddrinfo(address.host, address.port, 0, _socket.SOCK_STREAM):
        connection = _socket.socket(family, kind, protocol)
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(place)
        except OSError as error:
            connection.close()
            problem = error
            continue
        connection.settimeout(seconds)
        return _encrypt(connection, address.host, seconds) if address.secure else connection
    raise problem or OSError(f"{address.host} has no address")


def _encrypt(connection: _socket.socket, host: str, seconds: float) -> Connection:
    import socket
    import ssl

    plain = socket.socket(fileno=connection.detach())
    plain.settimeout(CONNECT_SECONDS)
    encrypted = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    encrypted.settimeout(seconds)
    return encrypted


def _request(call: Call, prefix: str, authority: str, headers: dict[str, str]) -> bytes:
    body = b"" if call.body is None else json.dumps(call.body).encode()
    head = [f"{call.method} {prefix}{call.target} HTTP/1.1", f"Host: {authority}", "Connection: close"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    if call.body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join((*head, "", "")).encode("ascii") + body


def _write(connection: Connection, data: bytes) -> None:
    """A server may answer and hang up before it has read all, so a broken pipe is not the end: the answer may be."""
    try:
        connection.sendall(data)
    except ConnectionError:
        return


class _Reader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def _more(self) -> None:
        data = self._connection.recv(CHUNK)
        if not data:
            raise Lost("the connection was closed before the answer was complete")
        self._buffer += data

    def line(self) -> str:
        while (end := self._buffer.find(b"\n")) < 0:
            self._more()
        line = self._buffer[:end].strip().decode("latin-1")
        del self._buffer[: end + 1]
        return line

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def rest(self) -> bytes:
        while data := self._connection.recv(CHUNK):
            self._buffer += data
        return bytes(self._buffer)


def _read_answer(reader: _Reader) -> tuple[int, bytes]:
    status, headers = _read_head(reader)
    while CONTINUE <= status < OK:
        status, headers = _read_head(reader)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return status, _read_chunks(reader)
    if "content-length" in headers:
        return status, reader.exactly(int(headers["content-length"]))
    return status, reader.rest()


def _read_head(reader: _Reader) -> tuple[int, dict[str, str]]:
    words = reader.line().split(None, 2)
    if len(words) < len(("HTTP/1.1", "200")) or not words[0].startswith("HTTP/") or not words[1].isdecimal():
        raise Lost("the answer is not HTTP")
    headers = {}
    while line := reader.line():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(words[1]), headers


def _read_chunks(reader: _Reader) -> bytes:
    chunks = []
    while size := int(reader.line().partition(";")[0], 16):
        chunks.append(reader.exactly(size))
        reader.line()
    return b"".join(chunks)


def _parse(endpoint: Endpoint, status: int, content: bytes) -> Any:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or REDIRECTION <= status < REFUSED or (status >= REFUSED and "error" not in answer):
        raise unreadable(endpoint, status)
    return answer


def _unreachable(endpoint: Endpoint, error: OSError) -> WakelineError:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError) and not isinstance(error, Lost):
        return unreachable(endpoint, "no server is running there")
    if isinstance(error, TimeoutError):
        return unreachable(endpoint, "it did not answer in time")
    return unreachable(endpoint, error.strerror or str(error) or type(error).__name__)
