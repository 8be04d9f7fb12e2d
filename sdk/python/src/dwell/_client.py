"""The calls of the API."""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union, cast
from urllib.parse import quote, urlencode

from ._http import Connection, Server
from ._types import (
    UNSET,
    Duration,
    Instant,
    Job,
    JobsPage,
    Policy,
    PutJob,
    PutResult,
    RetryPolicy,
    Settled,
    Topic,
    TopicsPage,
    duration,
    instant,
    sent,
)

_UNITS = (("w", 604_800.0), ("d", 86_400.0), ("h", 3_600.0), ("ms", 0.001), ("m", 60.0), ("s", 1.0))


class Client:
    """A Dwell server. Threads may share it: each has a connection of its own, made when it is first used."""

    def __init__(self, url: str = "http://127.0.0.1:3935", token: Optional[str] = None, timeout: float = 30.0) -> None:
        self._server = Server(url, token, timeout)
        self._local = threading.local()

    @property
    def url(self) -> str:
        """The server's address."""
        return self._server.url

    # Producing

    def put(
        self,
        topic: str,
        id: str,
        *,
        delay: Duration = UNSET,
        at: Instant = UNSET,
        body: Any = UNSET,
        body_base64: str = UNSET,
        headers: Mapping[str, str] = UNSET,
        priority: int = UNSET,
        ttr: Duration = UNSET,
        retry: RetryPolicy = UNSET,
        ttl: Duration = UNSET,
        jitter: Duration = UNSET,
        deliver_to: str = UNSET,
        if_exists: str = UNSET,
        force: bool = False,
        if_match: Optional[int] = None,
    ) -> Job:
        """Puts a job under your own id; a live one of that id is replaced, unless ``if_exists`` says otherwise.

        Due after ``delay``, at ``at``, or now. The answer has neither body nor headers."""
        fields = dict(delay=delay, at=at, body=body, body_base64=body_base64, headers=headers, priority=priority)
        fields.update(ttr=ttr, retry=retry, ttl=ttl, jitter=jitter, deliver_to=deliver_to, if_exists=if_exists)
        return cast(Job, self._guarded("PUT", _job(topic, id), sent(fields), force, if_match))

    def create(
        self, topic: str, job: Optional[PutJob] = None, *, idempotency_key: Optional[str] = None
    ) -> Job:
        """Puts a job under the id that it names, or under one that the server makes; a live one of that id refuses it.

        An ``idempotency_key`` is the id, and a second put of it keeps the first."""
        headers = {"idempotency-key": idempotency_key} if idempotency_key is not None else {}
        return cast(Job, self._call("POST", f"/v1/topics/{_name(topic)}/jobs", sent(cast(Dict[str, Any], job or {})), headers=headers))

    def put_many(self, jobs: Iterable[PutJob]) -> List[PutResult]:
        """Puts up to 10,000 jobs, durable together, each judged on its own; what became of each, in order."""
        items = [sent(cast(Dict[str, Any], job)) for job in jobs]
        return cast(List[PutResult], self._call("POST", "/v1/jobs", {"jobs": items})["results"])

    def get(self, topic: str, id: str) -> Job:
        """A job, with all that it carries."""
        return cast(Job, self._call("GET", _job(topic, id)))

    def change(
        self, topic: str, id: str, *, force: bool = False, if_match: Optional[int] = None, **fields: Any
    ) -> Job:
        """Changes or moves a job: ``delay`` or ``at``, ``priority``, ``body``, ``headers``, ``ttr``, ``retry``, ``ttl``,
        ``deliver_to``. What is not named stays; ``None`` clears an optional field."""
        return cast(Job, self._guarded("PATCH", _job(topic, id), sent(fields), force, if_match))

    def cancel(self, topic: str, id: str, *, force: bool = False, if_match: Optional[int] = None) -> None:
        """Cancels a job: afterwards it will not be delivered. ``Problem`` with code ``not_found`` if there is none."""
        self._guarded("DELETE", _job(topic, id), None, force, if_match)

    def cancel_many(self, jobs: Iterable[Tuple[str, str]]) -> List[Settled]:
        """Cancels jobs, each a topic and an id; what became of each, in order."""
        items = [{"topic": topic, "id": id} for topic, id in jobs]
        return cast(List[Settled], self._call("POST", "/v1/cancel", {"jobs": items})["results"])

    # Consuming

    def lease(
        self,
        topics: Union[str, Sequence[str]],
        *,
        max: int = 1,
        wait: Duration = 0,
        ttr: Optional[Duration] = None,
        consumer: Optional[str] = None,
        auto_ack: bool = False,
    ) -> List[Job]:
        """Jobs that are due, best first, each with the token that settles it; none if none was there in time."""
        return self._lease(self._connection(), topics, max, wait, ttr, consumer, auto_ack)

    def _lease(
        self,
        connection: Connection,
        topics: Union[str, Sequence[str]],
        max: int,
        wait: Duration,
        ttr: Optional[Duration],
        consumer: Optional[str],
        auto_ack: bool,
    ) -> List[Job]:
        named = [topics] if isinstance(topics, str) else list(topics)
        wanted: Dict[str, Any] = {"topics": named, "max": max, "wait": duration(wait), "auto_ack": auto_ack}
        if ttr is not None:
            wanted["ttr"] = duration(ttr)
        if consumer is not None:
            wanted["consumer"] = consumer
        answer = connection.call("POST", "/v1/lease", wanted, {}, seconds(wait))
        return cast(List[Job], answer["jobs"])

    def settle(self, items: Iterable[Mapping[str, Any]]) -> List[Settled]:
        """Settles leases: ``{"token": …, "verb": "ack"}``; what became of each, in order."""
        return cast(List[Settled], self._call("POST", "/v1/settle", {"items": [sent(item) for item in items]})["results"])

    def ack(self, token: str) -> None:
        """Done: the job is gone."""
        self._settle(token, "ack", {})

    def nack(self, token: str, *, error: str = UNSET, delay: Duration = UNSET) -> None:
        """Failed: the retry policy, or ``delay``, says when it comes again, or buries it."""
        self._settle(token, "nack", {"error": error, "delay": delay})

    def release(self, token: str, *, delay: Duration = UNSET, priority: int = UNSET) -> None:
        """Given back without blame."""
        self._settle(token, "release", {"delay": delay, "priority": priority})

    def bury(self, token: str, *, reason: str = UNSET, priority: int = UNSET) -> None:
        """Put aside until someone redrives, moves or cancels it."""
        self._settle(token, "bury", {"reason": reason, "priority": priority})

    def extend(self, token: str, *, ttr: Duration = UNSET) -> None:
        """Held for longer: the lease ends that much after now."""
        self._settle(token, "extend", {"ttr": ttr})

    def _settle(self, token: str, verb: str, terms: Mapping[str, Any]) -> None:
        self._call("POST", f"/v1/leases/{_name(token)}/{verb}", sent(terms))

    # Topics, dead letters, the future

    def topics(self, *, prefix: Optional[str] = None, limit: Optional[int] = None, cursor: Optional[str] = None) -> TopicsPage:
        """A page of topics, by name."""
        return cast(TopicsPage, self._call("GET", "/v1/topics", query={"prefix": prefix, "limit": limit, "cursor": cursor}))

    def topic(self, topic: str) -> Topic:
        """One topic."""
        return cast(Topic, self._call("GET", f"/v1/topics/{_name(topic)}"))

    def set_policy(self, topic: str, policy: Policy) -> Policy:
        """Replaces what a topic says for all its jobs."""
        return cast(Policy, self._call("PUT", f"/v1/topics/{_name(topic)}/policy", sent(cast(Dict[str, Any], policy))))

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic: its jobs, leases and policy."""
        self._call("DELETE", f"/v1/topics/{_name(topic)}")

    def pause(self, topic: str, length: Optional[Duration] = None) -> Topic:
        """Stops hand-outs, for a while or until resumed."""
        wanted = {} if length is None else {"for": duration(length)}
        return cast(Topic, self._call("POST", f"/v1/topics/{_name(topic)}/pause", wanted))

    def resume(self, topic: str) -> Topic:
        """Starts hand-outs again."""
        return cast(Topic, self._call("POST", f"/v1/topics/{_name(topic)}/resume"))

    def jobs(
        self, topic: str, *, state: Optional[str] = None, limit: Optional[int] = None, cursor: Optional[str] = None
    ) -> JobsPage:
        """A page of a topic's jobs, in due order within a state."""
        query = {"state": state, "limit": limit, "cursor": cursor}
        return cast(JobsPage, self._call("GET", f"/v1/topics/{_name(topic)}/jobs", query=query))

    def timeline(
        self,
        topic: Optional[str] = None,
        *,
        start: Optional[Instant] = None,
        until: Optional[Instant] = None,
        step: Optional[Duration] = None,
    ) -> List[Dict[str, Any]]:
        """How many delayed and ready jobs are due when: buckets of ``from``, ``until`` and ``count``."""
        path = "/v1/timeline" if topic is None else f"/v1/topics/{_name(topic)}/timeline"
        query = {"from": instant(start), "until": instant(until), "step": duration(step)}
        return cast(List[Dict[str, Any]], self._call("GET", path, query=query)["buckets"])

    def redrive(
        self,
        topic: str,
        *,
        ids: Sequence[str] = UNSET,
        reason: str = UNSET,
        max: int = UNSET,
        delay: Duration = UNSET,
        rate: float = UNSET,
    ) -> Dict[str, int]:
        """Brings dead letters back with fresh attempts, oldest first: ``{"redriven": …, "remaining": …}``."""
        wanted = sent(dict(ids=ids, reason=reason, max=max, delay=delay, rate=rate))
        return cast(Dict[str, int], self._call("POST", f"/v1/topics/{_name(topic)}/redrive", wanted))

    def purge(self, topic: str, state: str, *, force: bool = False) -> int:
        """Drops all jobs of a topic that are in this state; how many."""
        query = {"state": state, "force": "true" if force else None}
        return cast(int, self._call("DELETE", f"/v1/topics/{_name(topic)}/jobs", query=query)["purged"])

    def test_delivery(self, topic: str, *, deliver_to: str = UNSET, body: Any = UNSET) -> Dict[str, Any]:
        """Sends a sample to the topic's target, or to another, as a job would be pushed."""
        wanted = sent(dict(deliver_to=deliver_to, body=body))
        return cast(Dict[str, Any], self._call("POST", f"/v1/topics/{_name(topic)}/test-delivery", wanted))

    # The server

    def info(self) -> Dict[str, Any]:
        """What the server is, promises and allows, and its time."""
        return cast(Dict[str, Any], self._call("GET", "/v1/info"))

    def clock(self) -> str:
        """The time of a server that was started with ``--dev-clock``."""
        return cast(str, self._call("GET", "/v1/dev/clock")["now"])

    def advance_clock(self, advance: Duration) -> str:
        """Moves the time of a server that was started with ``--dev-clock``; the time it is then."""
        return cast(str, self._call("POST", "/v1/dev/clock", {"advance": duration(advance)})["now"])

    # Inside

    def _connection(self) -> Connection:
        connection = getattr(self._local, "connection", None)
        if not isinstance(connection, Connection):
            connection = Connection(self._server)
            self._local.connection = connection
        return connection

    def _guarded(self, method: str, path: str, body: Any, force: bool, if_match: Optional[int]) -> Any:
        headers = {"if-match": f'"{if_match}"'} if if_match is not None else {}
        return self._call(method, path, body, query={"force": "true" if force else None}, headers=headers)

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        headers: Optional[Dict[str, str]] = None,
    ) -> Any:
        asked = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        return self._connection().call(method, f"{path}?{asked}" if asked else path, body, headers or {}, 0.0)


def _name(name: str) -> str:
    """A name in a path. One that would make it another path is refused."""
    if name in ("", ".", ".."):
        raise ValueError(f'"{name}" cannot be a name')
    return quote(name, safe="")


def _job(topic: str, id: str) -> str:
    return f"/v1/topics/{_name(topic)}/jobs/{_name(id)}"


def seconds(value: Duration) -> float:
    """About how many seconds a duration has; the server reads it exactly."""
    read = duration(value)
    if isinstance(read, str):
        total, digits = 0.0, ""
        rest = read
        while rest:
            if rest[0].isdigit():
                digits, rest = digits + rest[0], rest[1:]
                continue
            unit = next((unit for unit in _UNITS if rest.startswith(unit[0])), None)
            if unit is None or not digits:
                return total
            total += int(digits) * unit[1]
            digits, rest = "", rest[len(unit[0]) :]
        return total
    return (read or 0) / 1_000
