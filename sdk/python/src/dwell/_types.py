"""What travels: the objects of the HTTP API, as they are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Mapping, Optional, TypedDict, Union

#: ``"1h30m"``, milliseconds, or a timedelta.
Duration = Union[str, int, timedelta]
#: RFC 3339 with a zone, milliseconds since 1970, or a datetime with a zone.
Instant = Union[str, int, datetime]


class RetryPolicy(TypedDict, total=False):
    """How a failed job is tried again: ``{"attempts": 3, "backoff": ["15s", "3m"]}``."""

    attempts: int
    backoff: Union[List[Union[str, int]], Dict[str, Union[str, int, float]]]


class PutJob(TypedDict, total=False):
    """A job of ``put_many``. ``topic`` is needed."""

    topic: str
    id: str
    delay: Duration
    at: Instant
    body: Any
    body_base64: str
    headers: Mapping[str, str]
    priority: int
    ttr: Duration
    retry: RetryPolicy
    ttl: Duration
    jitter: Duration
    deliver_to: str
    if_exists: str


class Job(TypedDict, total=False):
    """A job, as every read returns it. Fields that do not apply are absent."""

    topic: str
    id: str
    number: int
    state: str
    body: Any
    body_base64: str
    headers: Dict[str, str]
    created_at: str
    due_at: str
    version: int
    priority: int
    ttr_ms: int
    attempt: int
    retry: RetryPolicy
    deliver_to: str
    attempts: List[Dict[str, Any]]
    expires_at: str
    last_error: str
    buried_at: str
    buried_reason: str
    lease_expires_at: str
    consumer: str
    done_at: str
    outcome: str
    token: str


class PutResult(TypedDict, total=False):
    """What became of one job of a batch."""

    status: int
    outcome: str
    topic: str
    id: str
    due_at: str
    version: int
    code: str
    detail: str
    errors: List[Dict[str, str]]


class Settled(TypedDict, total=False):
    """What became of one item of a batch."""

    status: int
    code: str
    detail: str
    errors: List[Dict[str, str]]


class Policy(TypedDict, total=False):
    """What a topic says for all its jobs."""

    ttr: Duration
    retry: RetryPolicy
    ttl: Duration
    deliver_to: str
    deliver_secret: Union[str, List[str], None]
    max_in_flight: int
    max_rate: float
    keep_buried: Duration
    keep_done: Duration


class Topic(TypedDict, total=False):
    """What a topic looks like now."""

    name: str
    counts: Dict[str, int]
    next_due_at: str
    oldest_ready_at: str
    totals: Dict[str, int]
    waiting: int
    policy: Policy
    paused: bool
    paused_until: str


class TopicsPage(TypedDict, total=False):
    """A page of topics."""

    topics: List[Topic]
    next_cursor: str


class JobsPage(TypedDict, total=False):
    """A page of jobs."""

    jobs: List[Job]
    next_cursor: str


def duration(value: Optional[Duration]) -> Union[str, int, None]:
    """A duration as it is sent. Parts of a millisecond round up, so that nothing is early."""
    if isinstance(value, timedelta):
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        if micros < 0:
            raise ValueError(f"a duration cannot be negative: {value!r}")
        return -(-micros // 1_000)
    if isinstance(value, bool) or not (value is None or isinstance(value, (str, int))):
        raise TypeError(f'not a duration: {value!r}; try "30s", milliseconds or a timedelta')
    return value


def instant(value: Optional[Instant]) -> Union[str, int, None]:
    """An instant as it is sent. A datetime needs a zone: without one nobody knows when it is."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"the datetime {value!r} has no zone; try datetime.now(timezone.utc)")
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, bool) or not (value is None or isinstance(value, (str, int))):
        raise TypeError(f"not an instant: {value!r}; try RFC 3339 with a zone, milliseconds or a datetime")
    return value


#: Fields that are durations, in puts, changes and policies.
DURATIONS = ("delay", "ttr", "ttl", "jitter", "keep_buried", "keep_done")
#: Fields that are instants.
INSTANTS = ("at",)


def sent(fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields of a request as they are sent; what is ``UNSET`` is left out."""
    out: Dict[str, Any] = {}
    for name, value in fields.items():
        if value is UNSET:
            continue
        if name in DURATIONS:
            value = duration(value)
        elif name in INSTANTS:
            value = instant(value)
        out[name] = value
    return out


class Unset:
    """The default of fields that are left out, because ``None`` means something: JSON's null."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = Unset()
