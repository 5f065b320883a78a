"""The synchronous path against servers that misbehave, which a real one cannot be made to do."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.faces.command_line import WAKELINE, Shell
from wakeline.testing.server import ServerProcess

ID = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
POSTED = json.dumps({"message_id": ID, "thread_id": ID, "seq": 7, "log_id": 9, "epoch": "e"}).encode()
BUSY = json.dumps(
    {
        "error": {"code": "STORE_BUSY", "message": "busy", "hint": "wait", "details": {}, "retryable": True},
        "request_id": "r1",
        "occurred_at": "2030-01-01T00:00:00Z",
    }
).encode()
PLAIN = b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\n\r\n%s" % (len(POSTED), POSTED)
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (
    POSTED[:5],
    len(POSTED) - 5,
    POSTED[5:],
)
UNTIL_CLOSED = b"HTTP/1.0 201 Created\r\n\r\n" + POSTED
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN
REFUSED = b"HTTP/1.1 503 Unavailable\r\ncontent-length: %d\r\n\r\n%s" % (len(BUSY), BUSY)
CUT = PLAIN[:-10]
NOTHING = b""


@contextmanager
def impostor(listener: socket.socket, *answers: bytes) -> Iterator[list[bytes]]:
    """Answers one connection after another with these bytes, and keeps what it was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except ssl.SSLError:
                continue
            with connection:
                request = connection.recv(65_536)
                head, _, body = request.partition(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                while len(body) < length:
                    body += connection.recv(65_536)
                asked.append(head + b"\r\n\r\n" + body)
                connection.sendall(answer)

    helper = threading.Thread(target=serve, daemon=True)
    with listener:
        helper.start()
        yield asked


@pytest.fixture
def listener(tmp_path: Path) -> socket.socket:
    (tmp_path / "run").mkdir()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(tmp_path / "run" / "wakeline.sock"))
    bound.listen()
    return bound


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WAKELINE_DATA": str(tmp_path)})


def body_of(request: bytes) -> dict[str, object]:
    body: dict[str, object] = json.loads(request.partition(b"\r\n\r\n")[2])
    return body


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, UNTIL_CLOSED, CONTINUED])
def test_an_answer_may_be_framed_in_any_way(listener: socket.socket, shell: Shell, answer: bytes) -> None:
    with impostor(listener, answer):
        assert shell.json("send", "@bob", "hi")["seq"] == 7


@pytest.mark.guarantee("G-SAFE-REPEAT")
@pytest.mark.parametrize("first", [NOTHING, CUT, REFUSED, b"SSH-2.0-OpenSSH\r\n"])
def test_a_post_is_sent_again_under_the_same_key(listener: socket.socket, shell: Shell, first: bytes) -> None:
    with impostor(listener, first, PLAIN) as asked:
        assert shell.json("send", "@bob", "hi")["seq"] == 7
    keys = [body_of(request)["idempotency_key"] for request in asked]
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.guarantee("G-SAFE-REPEAT")
def test_what_could_take_effect_twice_is_sent_once(listener: socket.socket, shell: Shell) -> None:
    with impostor(listener, NOTHING, PLAIN) as asked:
        failed = shell.run("workspace", "add", "second")
    assert failed.code == 5
    assert len(asked) == 1


def test_a_server_that_stays_busy_is_reported_with_its_own_words(listener: socket.socket, shell: Shell) -> None:
    with impostor(listener, *[REFUSED] * 5) as asked:
        failed = shell.run("inbox", "-o", "json")
    assert failed.code == 5
    assert json.loads(failed.err)["request_id"] == "r1"
    assert failed.error()["code"] == "STORE_BUSY"
    assert len(asked) == 5


def test_the_operator_sends_no_credential_and_an_agent_its_own(listener: socket.socket, shell: Shell) -> None:
    with impostor(listener, PLAIN, PLAIN) as asked:
        shell.run("send", "@bob", "hi", "--workspace", "other")
        shell.as_token("abc").run("send", "@bob", "hi")
    assert b"Authorization" not in asked[0]
    assert b"\r\nWakeline-Workspace: other\r\n" in asked[0]
    assert b"\r\nAuthorization: Bearer abc\r\n" in asked[1]


def test_ids_from_people_cannot_change_the_path(listener: socket.socket, shell: Shell) -> None:
    with impostor(listener, PLAIN) as asked:
        shell.run("token", "revoke", "-o", "json", "../agents?x=1#\r\nX: y")
    assert asked[0].startswith(b"DELETE /v1/tokens/..%2Fagents%3Fx%3D1%23%0D%0AX%3A%20y HTTP/1.1\r\n")


def test_a_reader_that_goes_away_is_no_crash(listener: socket.socket, shell: Shell) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with impostor(listener, PLAIN):
        done = subprocess.run(
            [WAKELINE, "send", "@bob", "hi"],
            check=False,
            env=shell.environ,
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_url_without_a_token_leaves_us_the_operator(listener: socket.socket, shell: Shell) -> None:
    with impostor(listener, PLAIN) as asked:
        shell.with_environ(WAKELINE_URL="http://127.0.0.1:1").json("send", "@bob", "hi")
    assert len(asked) == 1


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


def test_https_is_spoken_and_certificates_are_checked(shell: Shell, certificate: Path) -> None:
    secrets = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secrets.load_cert_chain(certificate)
    listener = secrets.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)
    agent = shell.as_token("abc").with_environ(WAKELINE_URL=f"https://127.0.0.1:{listener.getsockname()[1]}/prefix/")
    with impostor(listener, CHUNKED, CHUNKED) as asked:
        assert agent.with_environ(SSL_CERT_FILE=str(certificate)).json("send", "@bob", "hi")["seq"] == 7
        assert asked[0].startswith(b"POST /prefix/v1/messages HTTP/1.1\r\n")
        refused = agent.run("agent", "list")
        assert refused.code == 5
        assert "certificate verify failed" in refused.err
        assert len(asked) == 1


def test_interrupting_a_wait_exits_with_130(listener: socket.socket, shell: Shell) -> None:
    process = shell.start("ask", "@bob", "Are you there?")
    with listener:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")


def test_a_path_too_long_for_a_socket_is_found_by_its_record(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / ("long" * 30)) as server:
        assert Shell(server.environ).json("whoami")["operator"]
