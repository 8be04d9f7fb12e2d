"""A worker: takes jobs as they become due, calls a handler for each, and settles them by what it says.

- Leases are extended in the background while a handler runs. If one is lost all the same, ``work.lost`` tells, and what
  the handler says is not sent: the job is somebody else's by then.
- A server that is away is asked again, after rests that grow to 5 s.
- ``stop()`` ends it: what is under way is finished and settled, what came and was not begun is released, uncounted.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from ._client import Client, seconds
from ._errors import DwellError, Problem
from ._http import Connection
from ._types import Duration, Job, duration

#: Seconds that one request for jobs waits.
WAIT = 20.0
#: The first rest after a server did not answer, and the longest.
FIRST_REST, LONGEST_REST = 0.1, 5.0
#: How long to rest after an answer that came too soon, as from a server that is about to stop.
SOON = 1.0
#: Jobs of one request, at the most: the server allows no more.
MOST = 1_000


class Retry(Exception):
    """Raised by a handler: a failed attempt. The job comes again ``after`` that long, or when its retry policy says."""

    def __init__(self, reason: str = "", *, after: Optional[Duration] = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = duration(after)


class Bury(Exception):
    """Raised by a handler: never try again. The job is a dead letter, for people to look at and redrive."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Event:
    """Something that a log may want to know: ``away``, ``failed`` or ``lease_lost``."""

    kind: str
    detail: str
    job: Optional[Job] = None


@dataclass
class Tally:
    """What became of the jobs of a worker."""

    acked: int = 0
    nacked: int = 0
    buried: int = 0
    released: int = 0
    lost: int = 0


class Work:
    """A job to be done."""

    def __init__(self, job: Job, ttr: float) -> None:
        self.job = job
        self._lost = threading.Event()
        self._ttr = ttr
        self._ends = time.monotonic() + ttr
        self._extend_at = time.monotonic() + ttr / 3

    @property
    def topic(self) -> str:
        return self.job["topic"]

    @property
    def id(self) -> str:
        return self.job["id"]

    @property
    def body(self) -> Any:
        """The body; ``job["body_base64"]`` has one that is opaque bytes."""
        return self.job.get("body")

    @property
    def attempt(self) -> int:
        """Deliveries so far that count, this one included."""
        return self.job["attempt"]

    @property
    def lost(self) -> bool:
        """Whether the lease is lost: somebody else may have the job by now."""
        return self._lost.is_set()

    def wait_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lease is lost, at most ``timeout`` seconds; whether it is."""
        return self._lost.wait(timeout)


class Worker:
    """Takes jobs and has them done. ``run`` blocks until ``stop`` is called, from another thread or a signal handler."""

    def __init__(
        self,
        client: Client,
        topics: Union[str, Sequence[str]],
        handler: Callable[[Work], object],
        *,
        concurrency: int = 1,
        ttr: Optional[Duration] = None,
        consumer: Optional[str] = None,
        on_event: Callable[[Event], object] = lambda event: None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self._client = client
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._handler = handler
        self._concurrency = concurrency
        self._ttr = ttr
        self._consumer = consumer
        self._on_event = on_event
        self._stopping = threading.Event()
        self._drained = threading.Event()
        self._places = threading.Semaphore(concurrency)
        self._lock = threading.Condition()
        self._under_way: Dict[int, Work] = {}
        self._tally = Tally()
        self._refused: Optional[DwellError] = None

    def run(self) -> Tally:
        """Works until ``stop`` is called, then finishes what is under way. Raises only if the server refuses the worker
        itself: its token, or its topics."""
        connection = Connection(self._client._server)
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="dwell-worker") as pool:
            asker = threading.Thread(target=self._ask, args=(connection, pool), name="dwell-asker", daemon=True)
            extender = threading.Thread(target=self._extend, name="dwell-extender", daemon=True)
            asker.start()
            extender.start()
            self._stopping.wait()
            # The last question is still open while others finish: what comes of it is given back.
            self._wait_until_idle()
            connection.abort()
            asker.join()
            # What the asker began just before it heard of the end.
            self._wait_until_idle()
            self._drained.set()
            extender.join()
        connection.close()
        if self._refused is not None:
            raise self._refused
        return self._tally

    def stop(self) -> None:
        """Begins no more jobs. ``run`` returns when those under way are done."""
        self._stopping.set()

    def _wait_until_idle(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._under_way)

    # Asking

    def _ask(self, connection: Connection, pool: ThreadPoolExecutor) -> None:
        try:
            self._ask_on(connection, pool)
        except DwellError as error:
            if not self._stopping.is_set():
                self._refused = error
        finally:
            self._stopping.set()

    def _ask_on(self, connection: Connection, pool: ThreadPoolExecutor) -> None:
        rest = FIRST_REST
        while not self._stopping.is_set():
            places = self._take_places()
            if places == 0:
                continue
            asked_at = time.monotonic()
            jobs: List[Job] = []
            try:
                jobs = self._client._lease(
                    connection, self._topics, min(places, MOST), int(WAIT * 1_000), self._ttr, self._consumer, False
                )
                rest = FIRST_REST
            except DwellError as error:
                self._give_places(places)
                if self._stopping.is_set():
                    return
                if not error.passes():
                    raise
                self._event(Event("away", f"{error}; asking again in {rest:.1f} s"))
                self._stopping.wait(rest * random.uniform(0.5, 1.0))
                rest = min(rest * 2, LONGEST_REST)
                continue
            if self._stopping.is_set():
                self._give_places(places)
                self._release(jobs)
                return
            self._give_places(places - len(jobs))
            for job in jobs:
                self._begin(job, pool)
            if not jobs and time.monotonic() - asked_at < WAIT / 2:
                self._stopping.wait(SOON)

    def _take_places(self) -> int:
        """As many places as are free, at least one; none if there was none for a moment."""
        if not self._places.acquire(timeout=0.2):
            return 0
        places = 1
        while places < self._concurrency and self._places.acquire(blocking=False):
            places += 1
        return places

    def _give_places(self, places: int) -> None:
        if places > 0:
            self._places.release(places)

    def _release(self, jobs: List[Job]) -> None:
        if not jobs:
            return
        try:
            results = self._client.settle({"token": job["token"], "verb": "release"} for job in jobs)
        except DwellError as error:
            self._event(Event("away", str(error)))
            return
        with self._lock:
            self._tally.released += sum(1 for result in results if "code" not in result)

    # Doing

    def _begin(self, job: Job, pool: ThreadPoolExecutor) -> None:
        ttr = seconds(self._ttr) if self._ttr is not None else job.get("ttr_ms", 60_000) / 1_000
        work = Work(job, ttr)
        with self._lock:
            self._under_way[id(work)] = work
        pool.submit(self._do, work)

    def _do(self, work: Work) -> None:
        try:
            said: Dict[str, Any] = {"verb": "ack"}
            try:
                self._handler(work)
            except Retry as retry:
                said = {"verb": "nack", "error": _shortened(retry.reason, 1_024)}
                if retry.after is not None:
                    said["delay"] = retry.after
            except Bury as bury:
                said = {"verb": "bury", "reason": _shortened(bury.reason, 255) or "buried"}
            except BaseException as error:  # A handler that ends badly has failed, however it did.
                said = {"verb": "nack", "error": _shortened(f"{type(error).__name__}: {error}", 1_024)}
            if said["verb"] != "ack":
                self._event(Event("failed", said.get("error") or said.get("reason") or "", work.job))
            self._settle(work, said)
        finally:
            with self._lock:
                self._under_way.pop(id(work), None)
                self._lock.notify_all()
            self._places.release()

    def _settle(self, work: Work, said: Dict[str, Any]) -> None:
        """Says what became of it, until that was heard or the lease has run out."""
        rest, heard = FIRST_REST, False
        while not work.lost:
            try:
                result = self._client.settle([{"token": work.job["token"], **said}])[0]
                heard = "code" not in result
                break
            except DwellError as error:
                self._event(Event("away", str(error), work.job))
                if not error.passes() or time.monotonic() > work._ends:
                    break
                time.sleep(rest * random.uniform(0.5, 1.0))
                rest = min(rest * 2, LONGEST_REST)
        with self._lock:
            if not heard:
                self._tally.lost += 1
            elif said["verb"] == "ack":
                self._tally.acked += 1
            elif said["verb"] == "bury":
                self._tally.buried += 1
            else:
                self._tally.nacked += 1
        if not heard:
            self._event(Event("lease_lost", "what its handler said was not heard", work.job))

    # Holding

    def _extend(self) -> None:
        while not self._drained.wait(0.1):
            now = time.monotonic()
            with self._lock:
                works = [work for work in self._under_way.values() if work._extend_at <= now and not work.lost]
            if works:
                self._extend_all(works)

    def _extend_all(self, works: List[Work]) -> None:
        asked_at = time.monotonic()
        items = [{"token": work.job["token"], "verb": "extend", "ttr": int(work._ttr * 1_000)} for work in works]
        try:
            results = self._client.settle(items)
        except DwellError as error:
            self._event(Event("away", str(error)))
            for work in works:
                work._extend_at = time.monotonic() + min(1.0, work._ttr / 6)
                if time.monotonic() > work._ends:
                    work._lost.set()
            return
        for work, result in zip(works, results):
            if "code" in result:
                work._lost.set()
            else:
                work._ends = asked_at + work._ttr
                work._extend_at = asked_at + work._ttr / 3

    def _event(self, event: Event) -> None:
        self._on_event(event)


def _shortened(text: str, most: int) -> str:
    """A text of at most so many bytes, cut between characters."""
    return text.encode()[:most].decode(errors="ignore")


__all__ = ["Bury", "Event", "Problem", "Retry", "Tally", "Work", "Worker"]
