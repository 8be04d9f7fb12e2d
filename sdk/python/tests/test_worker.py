"""The worker against a real server, which is moved, killed and started again."""

from __future__ import annotations

import queue
import tempfile
import threading
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, List, Set, Tuple

from dwell import Bury, Event, Problem, Retry, Tally, Work, Worker
from server import Server

#: Seconds after which something that does not come has not come.
PATIENCE = 30


class Running:
    """A worker on a thread of its own, which says what it was given."""

    def __init__(self, server: Server, handler: Callable[[Work], object], **named: object) -> None:
        self.given: "queue.Queue[Tuple[str, int]]" = queue.Queue()
        self.events: "queue.Queue[Event]" = queue.Queue()

        def told(work: Work) -> None:
            self.given.put((work.id, work.attempt))
            handler(work)

        self.worker = Worker(server.client, "t", told, on_event=self.events.put, **named)  # type: ignore[arg-type]
        self._pool = ThreadPoolExecutor(1)
        self._future: "Future[Tally]" = self._pool.submit(self.worker.run)

    def take(self, count: int) -> List[Tuple[str, int]]:
        return [self.given.get(timeout=PATIENCE) for _ in range(count)]

    def until(self, kind: str) -> Event:
        while True:
            event = self.events.get(timeout=PATIENCE)
            if event.kind == kind:
                return event

    def end(self) -> Tally:
        self.worker.stop()
        tally = self._future.result(timeout=PATIENCE)
        self._pool.shutdown()
        return tally


class WorkerTest(unittest.TestCase):
    def test_a_handler_says_what_becomes_of_a_job(self) -> None:
        def handler(work: Work) -> None:
            if work.id == "fails":
                raise KeyError("x")
            if work.id == "later":
                raise Retry("busy", after="1h")
            if work.id == "never":
                raise Bury("no such order")

        with Server() as server:
            dwell = server.client
            for id in ("done", "fails", "later", "never"):
                dwell.put("t", id, delay="15h", body={"id": id})
            running = Running(server, handler, concurrency=3, consumer="me")
            dwell.advance_clock("15h")
            given = running.take(4)
            tally = running.end()
            self.assertEqual(sorted(given), [("done", 1), ("fails", 1), ("later", 1), ("never", 1)])
            self.assertEqual(tally, Tally(acked=1, nacked=2, buried=1))
            self.assertEqual(dwell.get("t", "fails")["last_error"], "KeyError: 'x'")
            self.assertEqual((dwell.get("t", "later")["state"], dwell.get("t", "later")["last_error"]), ("delayed", "busy"))
            self.assertEqual(dwell.get("t", "never")["buried_reason"], "no such order")
            with self.assertRaises(Problem):
                dwell.get("t", "done")

    def test_a_shutdown_finishes_what_is_under_way_and_begins_nothing(self) -> None:
        go_on = threading.Event()
        with Server() as server:
            dwell = server.client
            dwell.put("t", "under way")
            running = Running(server, lambda work: go_on.wait(PATIENCE), concurrency=2)
            running.take(1)
            while dwell.topic("t")["waiting"] == 0:
                pass
            running.worker.stop()
            dwell.put("t", "too late")
            while dwell.topic("t")["totals"]["released"] == 0:
                pass
            go_on.set()
            self.assertEqual(running.end(), Tally(acked=1, released=1))
            late = dwell.get("t", "too late")
            self.assertEqual((late["state"], late["attempt"]), ("ready", 0))
            self.assertTrue(running.given.empty())

    def test_stopping_does_not_wait_for_the_last_question(self) -> None:
        with Server() as server:
            server.client.pause("t")
            running = Running(server, lambda work: None)
            while server.client.topic("t")["waiting"] == 0:
                pass
            self.assertEqual(running.end(), Tally())
            while server.client.topic("t")["waiting"] == 1:
                pass

    def test_a_lease_lasts_as_long_as_its_handler(self) -> None:
        go_on = threading.Event()
        with Server("--store", "memory:") as server:
            dwell = server.client
            dwell.put("t", "a")
            running = Running(server, lambda work: go_on.wait(PATIENCE), concurrency=2, ttr="1s")
            running.take(1)
            first = dwell.get("t", "a")["lease_expires_at"]
            seen = {first}
            while len(seen) < 6:
                seen.add(dwell.get("t", "a")["lease_expires_at"])
            go_on.set()
            self.assertEqual(running.end(), Tally(acked=1))
            self.assertEqual(dwell.topic("t")["totals"]["timed_out"], 0)

    def test_a_handler_hears_that_its_lease_is_lost(self) -> None:
        with Server() as server:
            dwell = server.client
            dwell.put("t", "a")
            running = Running(server, lambda work: self.assertTrue(work.wait_lost(PATIENCE)), ttr="1s")
            running.take(1)
            dwell.put("t", "a", delay="1h", force=True)
            running.until("lease_lost")
            self.assertEqual(running.end(), Tally(lost=1))
            self.assertEqual(dwell.get("t", "a")["state"], "delayed")

    def test_a_server_that_is_killed_and_comes_back_finds_its_workers(self) -> None:
        with tempfile.TemporaryDirectory() as directory, Server("--data-dir", directory) as server:
            dwell = server.client
            dwell.put_many([{"topic": "t", "id": str(number)} for number in range(100)])
            seen: Set[str] = set()
            running = Running(server, lambda work: None, concurrency=4, ttr="1s")
            seen.update(id for id, _ in running.take(20))
            server.kill()
            running.until("away")
            server.start_again()
            while len(seen) < 100:
                seen.update(id for id, _ in running.take(1))
            while sum(dwell.topic("t")["counts"].values()) > 0:
                pass
            tally = running.end()
            self.assertGreaterEqual(tally.acked + tally.lost, 100)

    def test_a_worker_that_is_refused_says_why(self) -> None:
        with Server() as server, self.assertRaises(Problem) as caught:
            Worker(server.client, "-", lambda work: None).run()
        self.assertEqual(caught.exception.code, "invalid_request")


if __name__ == "__main__":
    unittest.main()
