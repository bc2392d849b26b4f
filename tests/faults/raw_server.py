"""A server on the loopback interface that writes given bytes and breaks the connection."""

import socket
import struct
import threading
from dataclasses import dataclass, field


@dataclass
class RawServer:
    """Answers each connection in turn with the bytes of `answers`, the last one ever after.

    `reset` breaks connections with a reset instead of an end. Bytes are written as they are, so
    an answer may stop anywhere, within its headers too.
    """

    answers: list[bytes]
    reset: bool = False
    requests: list[bytes] = field(default_factory=list)

    def __enter__(self) -> "RawServer":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/checkins.txt.gz"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request and (piece := connection.recv(4096)):
            request += piece
        self.requests.append(request)
        last = len(self.answers) == 1
        connection.sendall(self.answers[0] if last else self.answers.pop(0))
        if self.reset and not last:
            # Lingering for no time drops what is not yet sent and resets the connection.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
