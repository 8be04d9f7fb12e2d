"""Drives a server with greenstalk, as a program of its users would."""

import sys

import greenstalk

host, port = sys.argv[1].rsplit(":", 1)
address = (host, int(port))

with greenstalk.Client(address, use="mail", watch=["mail", "news"]) as client:
    assert client.using() == "mail" and sorted(client.watching()) == ["mail", "news"]
    first = client.put("first", priority=10, ttr=30)
    second = client.put(b"second \xc3\xbc", priority=5)
    later = client.put("later", delay=3600)
    assert client.peek(first).body == "first"
    assert client.peek_ready().id == second
    assert client.peek_delayed().id == later

    job = client.reserve()
    assert (job.id, job.body) == (second, "second ü"), job
    client.touch(job)
    client.release(job, priority=20)
    job = client.reserve(timeout=0)
    assert job.id == first
    client.bury(job)
    assert client.peek_buried().id == first
    stats = client.stats_job(first)
    assert (stats["state"], stats["tube"], stats["ttr"], stats["buries"]) == ("buried", "mail", 30, 1), stats
    assert client.kick(10) == 1
    client.kick_job(later)
    for wanted in (first, second, later):
        job = client.reserve(timeout=5)
        client.delete(job)
    try:
        client.reserve(timeout=0)
        raise AssertionError("there is no job")
    except greenstalk.TimedOutError:
        pass
    try:
        client.delete(first)
        raise AssertionError("it is gone")
    except greenstalk.NotFoundError:
        pass

    held = client.put("held", ttr=1)
    reserved = client.reserve_job(held)
    try:
        client.reserve(timeout=10)
        raise AssertionError("its time is nearly over")
    except greenstalk.DeadlineSoonError:
        client.delete(reserved)
    try:
        client.put("x" * (2 << 20))
        raise AssertionError("it is too big")
    except greenstalk.JobTooBigError:
        pass

    client.pause_tube("mail", 60)
    assert client.stats_tube("mail")["pause"] == 60
    assert "mail" in client.tubes()
    stats = client.stats()
    assert stats["cmd-put"] >= 4 and stats["version"].startswith("1.13"), stats
    client.pause_tube("mail", 0)
    client.ignore("news")
    try:
        client.ignore("mail")
        raise AssertionError("it is the only one")
    except greenstalk.NotIgnoredError:
        pass
    mine = client.put("mine", ttr=600)
    assert client.reserve(timeout=0).id == mine

with greenstalk.Client(address, watch="mail") as other:
    job = other.reserve(timeout=5)
    assert job.body == "mine", "what a closed connection held comes back"
    other.delete(job)
print("greenstalk: fine")
