"""A web server on the loopback interface that serves one file, and fails at first on request."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FileServer:
    """Serve `content` under every path.

    The first requests get the `failures`: a status without a body, or a function of the path that
    returns an address to which the server redirects. After `cut` bytes the connection breaks.
    """

    content: bytes
    failures: list[Any] = field(default_factory=list)
    cut: int | None = None
    requests: list[str] = field(default_factory=list)

    def __enter__(self) -> "FileServer":
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                failure = server.failures.pop(0) if server.failures else 200
                self.send_response(302 if callable(failure) else failure)
                if callable(failure):
                    self.send_header("Location", failure(self.path))
                body = server.content if failure == 200 else b""
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: server.cut])

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=60)

    def url(self, path: str = "checkins.txt.gz") -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{path}"
