"""The mixer's server: ``POST /v1/CAMPAIGN/ROUND`` is answered when the envelope is on disk.

The server keeps no addresses and no times, and writes no log of requests. It listens on the
loopback interface; a proxy in front of it terminates TLS.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import h11
import uvicorn
from shuffledp.errors import InputError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from shuffledp_collect.messages import HEAD, SEALED
from shuffledp_collect.mixer import WORDS, Answer, Store, StoreError

# A transaction has at most this many messages, or one envelope.
_MAX_MESSAGES_TOGETHER: Final = 2**16
_MAX_WAITING: Final = 4096  # envelopes
_MAX_WAITING_BYTES: Final = 2**28
# Time for the body of a request, and until a connection is closed that waits for the client.
_SECONDS_TO_SEND: Final = 20.0
_SECONDS_OF_CONNECTION: Final = 25.0
_SECONDS_TO_STOP: Final = 10
_OTHER_FILES: Final = 64  # open files that are not connections
_BUSY: Final = "the mixer cannot take the envelope now; send the same one again later"
_ANY_ORIGIN: Final = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}


class _Round:
    """Queue of the envelopes of a round, and the one thread that writes them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        store = Store(path)
        self.key = (store.campaign.name, store.number)
        self.length = HEAD + SEALED * store.campaign.laws.slots
        store.close()
        self._store: Store | None = None
        self._thread = ThreadPoolExecutor(1)
        self._waiting: asyncio.Queue[tuple[bytes, asyncio.Future[Answer]]] = asyncio.Queue(
            most_waiting(self.length)
        )

    async def answer(self, envelope: bytes) -> Answer:
        """Return the answer of the store; raise `StoreError` if it cannot be written."""
        found: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((envelope, found))
        except asyncio.QueueFull:
            raise StoreError("too many envelopes wait") from None
        return await found

    async def write(self) -> None:
        """Write waiting envelopes together, in an endless loop."""
        loop, most = asyncio.get_running_loop(), _MAX_MESSAGES_TOGETHER // (self.length // SEALED)
        while True:
            some = [await self._waiting.get()]
            while len(some) < most and not self._waiting.empty():
                some.append(self._waiting.get_nowait())
            try:
                answers = await loop.run_in_executor(
                    self._thread, self._take, [envelope for envelope, _ in some]
                )
            except Exception as error:
                for _, found in some:
                    if not found.done():
                        found.set_exception(StoreError(str(error)))
                continue
            for (_, found), each in zip(some, answers, strict=True):
                if not found.done():  # an envelope counts even if its sender hung up
                    found.set_result(each)

    async def stop(self) -> None:
        """Close the store after the current transaction."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _let_go(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _take(self, envelopes: list[bytes]) -> list[Answer]:
        """Take envelopes in the thread; open the store again after an error."""
        try:
            if self._store is None:
                store = Store(self._path)
                if (store.campaign.name, store.number) != self.key:
                    store.close()
                    raise StoreError("the store belongs to another round")
                self._store = store
            return self._store.take(envelopes)
        except Exception:
            self._let_go()
            raise


def most_waiting(length: int) -> int:
    """Return how many envelopes of a length may wait, and how many connections may be open."""
    return max(256, min(_MAX_WAITING, _MAX_WAITING_BYTES // length))


def make_server(stores: Sequence[Path]) -> Starlette:
    """Return the application that serves stores.

    Raises `InputError` if a file is not a store, or two stores belong to one round.
    """
    rounds = [_Round(path) for path in stores]
    lengths = [each.length for each in rounds]
    by_path = {"/v1/{}/{}".format(*each.key).encode(): each for each in rounds}
    if len(by_path) < len(rounds):
        raise InputError("two of the stores belong to the same round")

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        writers = [asyncio.create_task(each.write()) for each in rounds]
        yield
        for writer, each in zip(writers, rounds, strict=True):
            writer.cancel()
            await each.stop()

    async def envelope(request: Request) -> Response:
        # The path as sent: a proxy's rules treat an escaped path as another one.
        found = by_path.get(request.scope["raw_path"])
        try:
            async with asyncio.timeout(_SECONDS_TO_SEND):
                body = await _body(request, found.length if found else max(lengths))
        except (TimeoutError, ClientDisconnect):
            return _said(408, "the envelope did not come in time")
        if body is None:
            return _said(413, "an envelope of this campaign is smaller")
        if found is None:
            return _said(404, "there is no such campaign or round here")
        try:
            answer = await found.answer(body)
        except StoreError:
            return _said(503, _BUSY)
        return _said(answer.value, WORDS.get(answer, ""))

    app = Starlette(
        routes=[Route("/v1/{campaign}/{round}", envelope, methods=["POST"])], lifespan=life
    )
    app.router.redirect_slashes = False
    app.state.most = min(most_waiting(length) for length in lengths)
    return app


async def _body(request: Request, most: int) -> bytes | None:
    """Return the body, or None as soon as it is longer than `most`."""
    taken = bytearray()
    async for chunk in request.stream():
        taken += chunk
        if len(taken) > most:
            return None
    return bytes(taken)


def _said(status: int, words: str) -> Response:
    if status == 204:
        return Response(status_code=204, headers=_ANY_ORIGIN)
    return PlainTextResponse(f"{words}\n", status, _ANY_ORIGIN)


class _Connection(H11Protocol):
    """Close connections whose request does not come in time, and those with half a request.

    Uvicorn waits without limit for headers, and for the rest of a request that was answered.
    """

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._end is not None:
            self._end.cancel()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self.loop.call_later(_SECONDS_OF_CONNECTION, self._late)

    def _late(self) -> None:
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self.transport.abort()
        else:
            self._wait()  # the request waits for the store


def serve(stores: Sequence[Path], port: int, ready: Callable[[str], None] | None = None) -> None:
    """Serve stores on the loopback interface until the process is told to stop.

    Port 0 stands for a free one. `ready` is called with the server's address as soon as it listens.
    Raises `InputError` as `make_server` does, and `OSError` if the port is taken.
    """
    import socket

    app = make_server(stores)
    most = app.state.most
    files, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < most + _OTHER_FILES:
        wanted = most + _OTHER_FILES
        files = wanted if allowed < 0 else min(wanted, allowed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, allowed))
        most = min(most, max(files - _OTHER_FILES, 1))
    listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    where = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=False,
            log_level="error",
            server_header=False,
            date_header=False,
            http=_Connection,
            ws="none",
            proxy_headers=False,  # addresses behind a proxy are not wanted
            limit_concurrency=most,
            backlog=1024,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_SECONDS_TO_STOP,
        )
    )
    if ready is not None:
        ready(where)
    server.run(sockets=[listening])
