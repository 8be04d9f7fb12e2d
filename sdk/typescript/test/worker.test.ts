/** The worker against a real server, which is moved, killed and started again. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Bury, type Handler, Problem, Retry, type Tally, Worker, type WorkerEvent, type WorkerOptions } from "../src/index.js";
import { Server } from "./server.js";

const NONE: Tally = { acked: 0, nacked: 0, buried: 0, released: 0, lost: 0 };

/** A worker that says what it was given. */
class Running {
  readonly given: Array<[string, number]> = [];
  readonly events: WorkerEvent[] = [];
  readonly worker: Worker;
  readonly #run: Promise<Tally>;
  #wake = () => {};

  constructor(server: Server, handler: Handler, options: WorkerOptions = {}) {
    const told: Handler = (work) => {
      this.given.push([work.id, work.attempt]);
      this.#wake();
      return handler(work);
    };
    const onEvent = (event: WorkerEvent) => {
      this.events.push(event);
      this.#wake();
    };
    this.worker = new Worker(server.client, "t", told, { ...options, onEvent });
    this.#run = this.worker.run();
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  end(): Promise<Tally> {
    this.worker.stop();
    return this.#run;
  }
}

async function withServer(flags: string[], body: (server: Server) => Promise<void>): Promise<void> {
  const server = await Server.start(...flags);
  try {
    await body(server);
  } finally {
    await server.kill();
  }
}

/** Something that a handler waits for. */
function gate(): { open: () => void; opened: Promise<void> } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { open, opened };
}

test("a handler says what becomes of a job", () =>
  withServer([], async (server) => {
    const dwell = server.client;
    for (const id of ["done", "fails", "later", "never"]) await dwell.put("t", id, { delay: "15h" });
    const handler: Handler = (work) => {
      if (work.id === "fails") throw new TypeError("odd");
      if (work.id === "later") throw Retry.after("1h", "busy");
      if (work.id === "never") throw new Bury("no such order");
    };
    const running = new Running(server, handler, { concurrency: 3, consumer: "me" });
    await dwell.advanceClock("15h");
    await running.until(() => running.given.length === 4);
    assert.deepEqual(await running.end(), { ...NONE, acked: 1, nacked: 2, buried: 1 });
    assert.deepEqual(running.given.sort(), [["done", 1], ["fails", 1], ["later", 1], ["never", 1]]);
    assert.equal((await dwell.get("t", "fails")).last_error, "TypeError: odd");
    const later = await dwell.get("t", "later");
    assert.deepEqual([later.state, later.last_error], ["delayed", "busy"]);
    assert.equal((await dwell.get("t", "never")).buried_reason, "no such order");
    await assert.rejects(dwell.get("t", "done"), Problem);
  }));

test("a shutdown finishes what is under way and begins nothing", () =>
  withServer([], async (server) => {
    const dwell = server.client;
    const { open, opened } = gate();
    await dwell.put("t", "under way");
    const running = new Running(server, () => opened, { concurrency: 2 });
    await running.until(() => running.given.length === 1);
    while ((await dwell.topic("t")).waiting === 0);
    running.worker.stop();
    await dwell.put("t", "too late");
    while ((await dwell.topic("t")).totals["released"] === 0);
    open();
    assert.deepEqual(await running.end(), { ...NONE, acked: 1, released: 1 });
    const late = await dwell.get("t", "too late");
    assert.deepEqual([late.state, late.attempt, running.given.length], ["ready", 0, 1]);
  }));

test("stopping does not wait for the last question", () =>
  withServer([], async (server) => {
    const dwell = server.client;
    await dwell.pause("t");
    const running = new Running(server, () => {});
    while ((await dwell.topic("t")).waiting === 0);
    assert.deepEqual(await running.end(), NONE);
    while ((await dwell.topic("t")).waiting === 1);
  }));

test("so many are under way and no more", () =>
  withServer([], async (server) => {
    const dwell = server.client;
    await dwell.putMany(Array.from({ length: 50 }, (_, number) => ({ topic: "t", id: String(number) })));
    let [now, most] = [0, 0];
    const handler: Handler = async () => {
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now -= 1;
    };
    const running = new Running(server, handler, { concurrency: 7 });
    await running.until(() => running.given.length === 50);
    assert.deepEqual(await running.end(), { ...NONE, acked: 50 });
    assert(most > 1 && most <= 7, String(most));
  }));

test("a lease lasts as long as its handler", () =>
  withServer(["--store", "memory:"], async (server) => {
    const dwell = server.client;
    const { open, opened } = gate();
    await dwell.put("t", "a");
    const running = new Running(server, () => opened, { concurrency: 2, ttr: "1s" });
    await running.until(() => running.given.length === 1);
    const seen = new Set<string | undefined>();
    while (seen.size < 6) seen.add((await dwell.get("t", "a")).lease_expires_at);
    open();
    assert.deepEqual(await running.end(), { ...NONE, acked: 1 });
    assert.equal((await dwell.topic("t")).totals["timed_out"], 0);
  }));

test("a handler hears that its lease is lost", () =>
  withServer([], async (server) => {
    const dwell = server.client;
    await dwell.put("t", "a");
    const handler: Handler = (work) => new Promise((resolve) => work.lost.addEventListener("abort", resolve));
    const running = new Running(server, handler, { ttr: "1s" });
    await running.until(() => running.given.length === 1);
    await dwell.put("t", "a", { delay: "1h" }, { force: true });
    await running.until(() => running.events.some(({ kind }) => kind === "lease_lost"));
    assert.deepEqual(await running.end(), { ...NONE, lost: 1 });
    assert.equal((await dwell.get("t", "a")).state, "delayed");
  }));

test("a server that is killed and comes back finds its workers", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dwell-"));
  await withServer(["--data-dir", directory], async (server) => {
    const dwell = server.client;
    await dwell.putMany(Array.from({ length: 100 }, (_, number) => ({ topic: "t", id: String(number) })));
    const running = new Running(server, () => {}, { concurrency: 4, ttr: "1s" });
    await running.until(() => running.given.length >= 20);
    await server.kill();
    await running.until(() => running.events.some(({ kind }) => kind === "away"));
    await server.startAgain();
    await running.until(() => new Set(running.given.map(([id]) => id)).size === 100);
    for (;;) {
      const { counts } = await dwell.topic("t");
      if (counts.delayed + counts.ready + counts.leased + counts.buried === 0) break;
    }
    const tally = await running.end();
    assert(tally.acked + tally.lost >= 100, JSON.stringify(tally));
  });
  await rm(directory, { recursive: true });
});

test("a worker that is refused says why", () =>
  withServer([], async (server) => {
    await assert.rejects(new Worker(server.client, "-", () => {}).run(), (error) => {
      return error instanceof Problem && error.code === "invalid_request";
    });
  }));
