"""An identity provider of our own, with real keys over real HTTP."""

from __future__ import annotations

import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

AUDIENCE, ISSUER = "wakeline-of-acme", "https://issuer.example"


class Issuer:
    """An identity provider of our own, which publishes its keys over real HTTP."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "ed": (Ed25519PrivateKey.generate(), "EdDSA"),
            "rsa": (rsa.generate_private_key(65537, 2048), "RS256"),
            "ec": (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        }
        self.fetched = 0
        self.is_down = False
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetched += 1
                if issuer.is_down:
                    self.send_error(503)
                    return
                body = json.dumps(issuer.document()).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:100])
                self.wfile.flush()
                time.sleep(0.05)  # the rest comes when it comes
                self.wfile.write(body[100:])

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def document(self) -> dict[str, Any]:
        published = []
        for kid, (key, algorithm) in self.keys.items():
            made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
            published.append({**made, "kid": kid, "alg": algorithm, "use": "sig"})
        return {"keys": published}

    def token(self, handle: str, kid: str = "ed", **changed: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER, "aud": AUDIENCE, "agent_id": handle, "workspace_id": "default", "role": "participant",
            "iat": now, "exp": now + 600, "jti": uuid.uuid4().hex, **changed,
        }  # fmt: skip
        key, algorithm = self.keys[kid]
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(given, key, algorithm=algorithm, headers={"kid": kid})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
