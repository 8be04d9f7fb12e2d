"""The client against a real server."""

from __future__ import annotations

import socket
import threading
import unittest
from datetime import datetime, timedelta, timezone

from dwell import Client, Lost, NotDwell, Problem, Unreachable
from server import Server


class ClientTest(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.kill()

    def refused(self, code: str, call: object, *args: object, **named: object) -> Problem:
        assert callable(call)
        with self.assertRaises(Problem) as caught:
            call(*args, **named)
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def test_a_job_is_put_moved_and_cancelled(self) -> None:
        dwell = self.server.client
        put = dwell.put("py/one", "a b/é", delay=timedelta(minutes=30), body={"order": 12345678901234567890})
        self.assertEqual((put["outcome"], put["state"]), ("created", "delayed"))
        job = dwell.get("py/one", "a b/é")
        self.assertEqual(job["body"], {"order": 12345678901234567890})
        moved = dwell.change("py/one", "a b/é", at=datetime(2100, 1, 1, tzinfo=timezone(timedelta(hours=8))) - timedelta(days=27_000), priority=7)
        self.assertEqual(moved["priority"], 7)
        self.assertEqual(dwell.change("py/one", "a b/é", priority=None)["priority"], 1024)
        self.refused("version_mismatch", dwell.cancel, "py/one", "a b/é", if_match=1)
        dwell.cancel("py/one", "a b/é")
        self.refused("not_found", dwell.cancel, "py/one", "a b/é")

    def test_everything_a_put_can_say_arrives(self) -> None:
        dwell = self.server.client
        dwell.put(
            "py.all",
            "a",
            at="2030-01-01T09:00:00+08:00",
            body_base64="/wA=",
            headers={"k": "v"},
            priority=3,
            ttr="5s",
            ttl=timedelta(hours=1),
            retry={"attempts": 9, "backoff": ["15s", "3m"]},
            jitter=0,
            if_exists="reject",
        )
        job = dwell.get("py.all", "a")
        self.assertEqual((job["due_at"], job["expires_at"]), ("2030-01-01T01:00:00.000Z", "2030-01-01T02:00:00.000Z"))
        self.assertEqual((job["body_base64"], job["headers"], job["priority"], job["ttr_ms"]), ("/wA=", {"k": "v"}, 3, 5_000))
        self.assertEqual(job["retry"], {"attempts": 9, "backoff": [15_000, 180_000]})
        self.refused("job_exists", dwell.put, "py.all", "a", if_exists="reject")
        self.assertEqual(dwell.put("py.all", "b", body=None)["outcome"], "created")
        self.assertIsNone(dwell.get("py.all", "b")["body"])
        self.assertEqual(dwell.create("py.all", idempotency_key="k")["id"], "k")
        self.assertEqual(dwell.create("py.all", {"delay": "1h"}, idempotency_key="k")["outcome"], "kept")

    def test_many_at_once(self) -> None:
        dwell = self.server.client
        results = dwell.put_many([{"topic": "py.many", "id": "a", "delay": "1h"}, {"topic": "py.many", "id": "a"}, {"topic": "-"}])
        self.assertEqual([result["status"] for result in results], [201, 409, 400])
        self.assertEqual([result["status"] for result in dwell.cancel_many([("py.many", "a"), ("py.many", "b")])], [204, 404])

    def test_leases_are_settled_in_every_way(self) -> None:
        dwell = self.server.client
        dwell.put("py.settle", "a")

        def token() -> str:
            return dwell.lease("py.settle", wait="5s", consumer="me")[0]["token"]

        first = token()
        dwell.extend(first, ttr="1h")
        dwell.release(first, priority=5)
        self.assertEqual(dwell.get("py.settle", "a")["attempt"], 0)
        dwell.nack(token(), error="odd", delay=0)
        self.assertEqual(dwell.get("py.settle", "a")["last_error"], "odd")
        dwell.bury(token(), reason="enough")
        self.assertEqual(dwell.redrive("py.settle", reason="enough"), {"redriven": 1, "remaining": 0})
        last = token()
        dwell.ack(last)
        self.refused("lease_lost", dwell.ack, last)
        self.assertEqual(dwell.settle([{"token": last, "verb": "ack"}])[0]["code"], "lease_lost")
        self.assertEqual(dwell.lease(["py.settle", "py.other"], max=10), [])
        dwell.put("py.settle", "b")
        self.assertNotIn("token", dwell.lease("py.settle", auto_ack=True)[0])

    def test_topics(self) -> None:
        dwell = self.server.client
        dwell.set_policy("py.topic", {"ttr": "30s", "keep_done": timedelta(minutes=1)})
        dwell.pause("py.topic", "1h")
        dwell.put("py.topic", "a")
        topic = dwell.topic("py.topic")
        self.assertEqual((topic["paused"], topic["policy"], topic["counts"]["ready"]), (True, {"ttr": 30_000, "keep_done": 60_000}, 1))
        dwell.resume("py.topic")
        self.assertEqual([topic["name"] for topic in dwell.topics(prefix="py.topic")["topics"]], ["py.topic"])
        self.assertEqual([job["id"] for job in dwell.jobs("py.topic", state="ready")["jobs"]], ["a"])
        self.assertEqual(len(dwell.timeline("py.topic", step="1h")), 24)
        self.assertEqual(dwell.purge("py.topic", "ready"), 1)
        dwell.delete_topic("py.topic")
        self.refused("not_found", dwell.topic, "py.topic")
        self.assertEqual(dwell.info()["store"], "memory")

    def test_fifteen_hours_pass_in_a_moment(self) -> None:
        dwell = self.server.client
        dwell.put("py.clock", "a", delay="15h")
        self.assertEqual(dwell.lease("py.clock"), [])
        dwell.advance_clock(timedelta(hours=15))
        self.assertEqual([job["id"] for job in dwell.lease("py.clock")], ["a"])

    def test_mistakes_are_named(self) -> None:
        dwell = self.server.client
        problem = self.refused("invalid_request", dwell.put, "py.bad", "a", delay="5x")
        self.assertEqual(problem.errors[0]["field"], "delay")
        self.refused("invalid_request", dwell.create, "py.bad", {"dely": "5s"})
        for call in (
            lambda: dwell.put("py.bad", "a", at=datetime(2030, 1, 1)),
            lambda: dwell.put("py.bad", "a", delay=timedelta(seconds=-1)),
            lambda: dwell.put("py.bad", ".."),
            lambda: dwell.put("py.bad", "a", body=float("nan")),
            lambda: Client("127.0.0.1:3935"),
            lambda: Client("http://me:secret@localhost"),
            lambda: Client("http://localhost", token="a\nb"),
        ):
            self.assertRaises(ValueError, call)
        self.assertRaises(TypeError, lambda: dwell.put("py.bad", "a", delay=1.5))  # type: ignore[arg-type]

    def test_parts_of_a_millisecond_are_never_early(self) -> None:
        dwell = self.server.client
        put = dwell.put("py.ms", "a", at=datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc))
        self.assertEqual(put["due_at"], "2030-01-01T00:00:00.001Z")

    def test_threads_share_a_client(self) -> None:
        dwell, failed = self.server.client, []

        def puts(number: int) -> None:
            try:
                for index in range(20):
                    dwell.put("py.threads", f"{number}-{index}", delay="1h")
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=puts, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failed, dwell.topic("py.threads")["counts"]["delayed"]), ([], 160))


class NobodyTest(unittest.TestCase):
    def test_nobody_there_is_unreachable(self) -> None:
        with self.assertRaises(Unreachable) as caught:
            Client("http://127.0.0.1:1").info()
        self.assertEqual(str(caught.exception), "cannot reach http://127.0.0.1:1: connection refused")

    def test_who_answers_otherwise_is_no_dwell_server(self) -> None:
        for answer, kind in (
            (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", NotDwell),
            (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", NotDwell),
            (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", Unreachable),
            (b"", Lost),
        ):
            with socket.create_server(("127.0.0.1", 0)) as listener:

                def serve(answer: bytes = answer) -> None:
                    stream, _ = listener.accept()
                    with stream:
                        stream.recv(65_536)
                        stream.sendall(answer)

                thread = threading.Thread(target=serve)
                thread.start()
                self.assertRaises(kind, Client(f"http://127.0.0.1:{listener.getsockname()[1]}").info)
                thread.join()

    def test_a_connection_that_the_server_closed_is_not_used_again(self) -> None:
        with Server("--store", "memory:") as server:
            server.client.put("t", "a")
            server.kill()
            server.start_again()
            self.assertEqual(server.client.put("t", "a")["outcome"], "created")

    def test_a_token_is_shown(self) -> None:
        with Server("--store", "memory:", "--token", "secret") as server:
            with self.assertRaises(Problem) as caught:
                server.client.info()
            self.assertEqual(caught.exception.code, "unauthorized")
            Client(f"http://{server.address}", token="secret").info()


if __name__ == "__main__":
    unittest.main()
