/** The client against a real server. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { after, before, test } from "node:test";

import { Client, Lost, NotDwell, Problem, Unreachable } from "../src/index.js";
import { Server } from "./server.js";

let server: Server;
let dwell: Client;
before(async () => {
  server = await Server.start();
  dwell = server.client;
});
after(() => server.kill());

function refused(code: string, call: Promise<unknown>): Promise<void> {
  return assert.rejects(call, (error) => error instanceof Problem && error.code === code);
}

test("a job is put, moved and cancelled", async () => {
  const put = await dwell.put("ts/one", "a b/é", { delay: "30m", body: { order: 42 } });
  assert.deepEqual([put.outcome, put.state], ["created", "delayed"]);
  assert.deepEqual((await dwell.get("ts/one", "a b/é")).body, { order: 42 });
  const at = new Date("2030-01-01T00:00:00.001Z");
  const moved = await dwell.change("ts/one", "a b/é", { at, priority: 7 });
  assert.deepEqual([moved.due_at, moved.priority], ["2030-01-01T00:00:00.001Z", 7]);
  assert.equal((await dwell.change("ts/one", "a b/é", { priority: null })).priority, 1024);
  await refused("version_mismatch", dwell.cancel("ts/one", "a b/é", { ifMatch: 1 }));
  await dwell.cancel("ts/one", "a b/é");
  await refused("not_found", dwell.cancel("ts/one", "a b/é"));
});

test("everything a put can say arrives", async () => {
  await dwell.put("ts.all", "a", {
    at: "2030-01-01T09:00:00+08:00",
    body_base64: "/wA=",
    headers: { k: "v" },
    priority: 3,
    ttr: "5s",
    ttl: "1h",
    retry: { attempts: 9, backoff: ["15s", "3m"] },
    jitter: 0,
    if_exists: "reject",
  });
  const job = await dwell.get("ts.all", "a");
  assert.deepEqual([job.due_at, job.expires_at], ["2030-01-01T01:00:00.000Z", "2030-01-01T02:00:00.000Z"]);
  assert.deepEqual([job.body_base64, job.headers, job.priority, job.ttr_ms], ["/wA=", { k: "v" }, 3, 5_000]);
  assert.deepEqual(job.retry, { attempts: 9, backoff: [15_000, 180_000] });
  await refused("job_exists", dwell.put("ts.all", "a", { if_exists: "reject" }));
  await dwell.put("ts.all", "b", { body: null });
  assert.equal((await dwell.get("ts.all", "b")).body, null);
  assert.equal((await dwell.create("ts.all", {}, { idempotencyKey: "k" })).id, "k");
  assert.equal((await dwell.create("ts.all", {}, { idempotencyKey: "k" })).outcome, "kept");
});

test("many at once", async () => {
  const results = await dwell.putMany([{ topic: "ts.many", id: "a", delay: "1h" }, { topic: "ts.many", id: "a" }, { topic: "-" }]);
  assert.deepEqual(results.map(({ status }) => status), [201, 409, 400]);
  const cancelled = await dwell.cancelMany([{ topic: "ts.many", id: "a" }, { topic: "ts.many", id: "b" }]);
  assert.deepEqual(cancelled.map(({ status }) => status), [204, 404]);
});

test("leases are settled in every way", async () => {
  await dwell.put("ts.settle", "a");
  const token = async () => {
    const [job] = await dwell.lease("ts.settle", { wait: "5s", consumer: "me" });
    assert(job !== undefined);
    return job.token;
  };
  const first = await token();
  await dwell.extend(first, { ttr: "1h" });
  await dwell.release(first, { priority: 5 });
  assert.equal((await dwell.get("ts.settle", "a")).attempt, 0);
  await dwell.nack(await token(), { error: "odd", delay: 0 });
  assert.equal((await dwell.get("ts.settle", "a")).last_error, "odd");
  await dwell.bury(await token(), { reason: "enough" });
  assert.deepEqual(await dwell.redrive("ts.settle", { reason: "enough" }), { redriven: 1, remaining: 0 });
  const last = await token();
  await dwell.ack(last);
  await refused("lease_lost", dwell.ack(last));
  assert.equal((await dwell.settle([{ token: last, verb: "ack" }]))[0]?.code, "lease_lost");
  assert.deepEqual(await dwell.lease(["ts.settle", "ts.other"], { max: 10 }), []);
});

test("topics", async () => {
  await dwell.setPolicy("ts.topic", { ttr: "30s", keep_done: "1m" });
  await dwell.pause("ts.topic", "1h");
  await dwell.put("ts.topic", "a");
  const topic = await dwell.topic("ts.topic");
  assert.deepEqual([topic.paused, topic.policy, topic.counts.ready], [true, { ttr: 30_000, keep_done: 60_000 }, 1]);
  await dwell.resume("ts.topic");
  assert.deepEqual((await dwell.topics({ prefix: "ts.topic" })).topics.map((topic) => topic.name), ["ts.topic"]);
  assert.deepEqual((await dwell.jobs("ts.topic", { state: "ready" })).jobs.map((job) => job.id), ["a"]);
  assert.equal((await dwell.timeline({ topic: "ts.topic", step: "1h" })).length, 24);
  assert.equal(await dwell.purge("ts.topic", "ready"), 1);
  await dwell.deleteTopic("ts.topic");
  await refused("not_found", dwell.topic("ts.topic"));
  assert.equal((await dwell.info()).store, "memory");
});

test("fifteen hours pass in a moment", async () => {
  await dwell.put("ts.clock", "a", { delay: "15h" });
  assert.deepEqual(await dwell.lease("ts.clock"), []);
  await dwell.advanceClock("15h");
  assert.deepEqual((await dwell.lease("ts.clock")).map((job) => job.id), ["a"]);
});

test("mistakes are named", async () => {
  await assert.rejects(dwell.put("ts.bad", "a", { delay: "5x" }), (error) => {
    return error instanceof Problem && error.code === "invalid_request" && error.errors[0]?.field === "delay";
  });
  for (const url of ["127.0.0.1", "ftp://localhost", "http://localhost/?a=b", "http://me:secret@localhost"]) {
    assert.throws(() => new Client(url), /is not the address of a server/);
  }
  assert.throws(() => new Client("http://localhost", { token: "a\nb" }), /printable ASCII/);
  assert.throws(() => void dwell.put("ts.bad", ".."), /cannot be a name/);
  assert.throws(() => void dwell.put("ts.bad", "a", { at: new Date(Number.NaN) }), /is not a time/);
});

test("a lease that is given up is given to others", async () => {
  await dwell.pause("ts.abort");
  const giveUp = new AbortController();
  const waiting = dwell.lease("ts.abort", { wait: "60s" }, { signal: giveUp.signal });
  while ((await dwell.topic("ts.abort")).waiting === 0);
  giveUp.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  while ((await dwell.topic("ts.abort")).waiting === 1);
});

test("nobody there is unreachable", async () => {
  await assert.rejects(new Client("http://127.0.0.1:2").info(), (error) => {
    return error instanceof Unreachable && error.message === "cannot reach http://127.0.0.1:2: connection refused";
  });
});

test("who answers otherwise is no Dwell server", async () => {
  for (const [answer, kind] of [
    ["HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", NotDwell],
    ["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", NotDwell],
    ["HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", NotDwell],
    ["HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", Unreachable],
    ["", Lost],
  ] as const) {
    const listener = createServer((socket) => void socket.once("data", () => socket.end(answer))).listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as AddressInfo;
    await assert.rejects(new Client(`http://127.0.0.1:${port}`).info(), kind);
    listener.close();
  }
});

test("a token is shown, and an answer that takes too long is lost", async () => {
  const guarded = await Server.start("--store", "memory:", "--token", "secret");
  await refused("unauthorized", guarded.client.info());
  const known = new Client(`http://${guarded.address}`, { token: "secret", timeout: 200 });
  await known.info();
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const client = new Client(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`, { timeout: 50 });
  await assert.rejects(client.info(), (error) => error instanceof Lost && error.message.includes("it takes too long"));
  silent.close();
  await guarded.kill();
});
