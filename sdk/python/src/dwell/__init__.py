"""Client of Dwell, a durable delay queue: give it a job and a time, and it hands the job over at that time.

    from dwell import Client, Worker, Retry

    dwell = Client("http://127.0.0.1:3935")
    dwell.put("orders.close", "order-42", delay="30m", body={"order": 42})
    dwell.cancel("orders.close", "order-42")

    def close(work):
        if till_is_busy():
            raise Retry("the till is busy", after="60s")
        close_order(work.body["order"])          # returning acks; any exception is a failed attempt

    Worker(dwell, ["orders.close"], close, concurrency=20).run()

The calls block. A program that runs on asyncio makes them with ``asyncio.to_thread``.
"""

from ._client import Client
from ._errors import DwellError, Lost, NotDwell, Problem, Unreachable
from ._types import Duration, Instant, Job, JobsPage, Policy, PutJob, PutResult, RetryPolicy, Settled, Topic, TopicsPage
from ._worker import Bury, Event, Retry, Tally, Work, Worker

__all__ = [
    "Bury",
    "Client",
    "Duration",
    "DwellError",
    "Event",
    "Instant",
    "Job",
    "JobsPage",
    "Lost",
    "NotDwell",
    "Policy",
    "Problem",
    "PutJob",
    "PutResult",
    "Retry",
    "RetryPolicy",
    "Settled",
    "Tally",
    "Topic",
    "TopicsPage",
    "Unreachable",
    "Work",
    "Worker",
]
