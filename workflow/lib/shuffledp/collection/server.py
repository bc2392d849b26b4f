"""The mixer's server: ``POST /v1/CAMPAIGN/ROUND``, answered when the envelope is on disk.

It keeps no address and no time, and writes no log of requests. A proxy in front of it does the TLS.
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
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from shuffledp.collection.messages import SEALED, TOKEN
from shuffledp.collection.mixer import WORDS, Answer, Store, StoreError
from shuffledp.errors import InputError

# Messages of one transaction, or one envelope, and envelopes that may wait for it.
_MOST_TOGETHER: Final = 2**16
_MOST_WAITING: Final = 4096
_MOST_BYTES: Final = 2**28  # of all envelopes that wait
# Of a request, and until its connection is closed where the server waits for the client.
_SECONDS_TO_SEND: Final = 20.0
_SECONDS_OF_CONNECTION: Final = 25.0
_SECONDS_TO_STOP: Final = 10
_OTHER_FILES: Final = 64  # that a server has open
_BUSY: Final = "the mixer cannot take it now; send the same again later"
_SAME_ORIGIN: Final = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}


class _Round:
    """Envelopes of a round wait here for the one thread that writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        store = Store(path)
        self.key = (store.campaign.name, store.number)
        self.length = TOKEN + SEALED * store.campaign.laws.slots
        store.close()
        self._store: Store | None = None
        self._thread = ThreadPoolExecutor(1)
        self._waiting: asyncio.Queue[tuple[bytes, asyncio.Future[Answer]]] = asyncio.Queue(
            most_waiting(self.length)
        )

    async def answer(self, envelope: bytes) -> Answer:
        """What the store says; raises `StoreError`."""
        found: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((envelope, found))
        except asyncio.QueueFull:
            raise StoreError("too many envelopes wait") from None
        return await found

    async def write(self) -> None:
        """Write what waits, together, for ever."""
        loop, most = asyncio.get_running_loop(), _MOST_TOGETHER // (self.length // SEALED)
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
                if not found.done():  # who hung up is counted all the same
                    found.set_result(each)

    async def stop(self) -> None:
        """Let go of the store, once what is being written is."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _let_go(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _take(self, envelopes: list[bytes]) -> list[Answer]:
        """In the thread: after an error the store is opened anew, as it may be back."""
        try:
            if self._store is None:
                store = Store(self._path)
                if (store.campaign.name, store.number) != self.key:
                    store.close()
                    raise StoreError("the store is of another round")
                self._store = store
            return self._store.take(envelopes)
        except Exception:
            self._let_go()
            raise


def most_waiting(length: int) -> int:
    """How many envelopes of a length may wait, and connections that send them be open."""
    return max(256, min(_MOST_WAITING, _MOST_BYTES // length))


def make_server(stores: Sequence[Path]) -> Starlette:
    """The application that serves some stores.

    Raises
    ------
    InputError
        If one is no store, or two are of one round.
    """
    rounds = [_Round(path) for path in stores]
    lengths = [each.length for each in rounds]
    by_path = {"/v1/{}/{}".format(*each.key).encode(): each for each in rounds}
    if len(by_path) < len(rounds):
        raise InputError("two of the stores are of one round")

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        writers = [asyncio.create_task(each.write()) for each in rounds]
        yield
        for writer, each in zip(writers, rounds, strict=True):
            writer.cancel()
            await each.stop()

    async def envelope(request: Request) -> Response:
        # As it was sent: an escaped path is another one for a proxy's rules.
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
    """The body, or None as soon as it is longer."""
    taken = bytearray()
    async for chunk in request.stream():
        taken += chunk
        if len(taken) > most:
            return None
    return bytes(taken)


def _said(status: int, words: str) -> Response:
    if status == 204:
        return Response(status_code=204, headers=_SAME_ORIGIN)
    return PlainTextResponse(f"{words}\n", status, _SAME_ORIGIN)


class _Connection(H11Protocol):
    """A connection is closed where a request does not come in time, and after half of one.

    Uvicorn waits for ever for the headers of a request, and for the rest of one that was answered.
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
            self._wait()  # it waits for the store


def serve(
    stores: Sequence[Path], host: str, port: int, ready: Callable[[str], None] | None = None
) -> None:
    """Serve until the process is told to stop.

    Parameters
    ----------
    stores
        Of rounds.
    host, port
        Where to listen; port 0 for a free one.
    ready
        Is told the address once it answers.

    Raises
    ------
    InputError
        As `make_server`.
    OSError
        If the address is taken.
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
    listening = socket.create_server((host, port), backlog=1024)
    where = f"http://{host}:{listening.getsockname()[1]}"
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=False,
            log_level="error",
            server_header=False,
            date_header=False,
            http=_Connection,
            ws="none",
            proxy_headers=False,  # who is behind a proxy is nobody's business
            limit_concurrency=most,
            backlog=1024,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_SECONDS_TO_STOP,
        )
    )
    if ready is not None:
        ready(where)
    server.run(sockets=[listening])
