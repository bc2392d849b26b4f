"""A web server on the loopback interface that serves one file and fails on request."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Describe the answer to one request; the default is that of a sound server."""

    status: int | None = None  # answer this status and no file
    body: bytes = b""  # with this text
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None  # break the connection after this many bytes of the file
    stall: float = 0.0  # seconds of silence where the connection would break


@dataclass
class FileServer:
    """Serve `content` under every path, after the first requests have got the given `answers`."""

    content: bytes
    answers: list[Answer] = field(default_factory=list)
    ranges: bool = True
    validators: Mapping[str, str] = field(default_factory=lambda: {"ETag": '"one"'})
    content_type: str = "application/octet-stream"
    stated_length: bool = True
    requests: list[Mapping[str, str]] = field(default_factory=list)

    def __enter__(self) -> "FileServer":
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(dict(self.headers))
                answer = server.answers.pop(0) if server.answers else Answer()
                server.reply(self, answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=60)

    def url(self, path: str = "checkins.txt.gz") -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{path}"

    def reply(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        if answer.status is not None:
            handler.send_response(answer.status)
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(answer.body)))
            handler.end_headers()
            handler.wfile.write(answer.body)
            return
        start = self._start(handler)
        if start >= len(self.content) > 0 and start:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(self.content)}")
            handler.end_headers()
            return
        rest = self.content[start:]
        handler.send_response(206 if start else 200)
        for name, value in {**self.validators, **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", self.content_type)
        if start:
            last = len(self.content) - 1
            handler.send_header("Content-Range", f"bytes {start}-{last}/{len(self.content)}")
        if self.stated_length:
            handler.send_header("Content-Length", str(len(rest)))
        handler.end_headers()
        handler.wfile.write(rest if answer.cut is None else rest[: answer.cut])
        handler.wfile.flush()
        time.sleep(answer.stall)

    def _start(self, handler: BaseHTTPRequestHandler) -> int:
        asked = handler.headers.get("Range", "")
        condition = handler.headers.get("If-Range")
        if not self.ranges or not asked.startswith("bytes="):
            return 0
        if condition is not None and condition not in self.validators.values():
            return 0
        return int(asked.removeprefix("bytes=").rstrip("-"))
