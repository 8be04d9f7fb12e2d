/** The calls of the API. */
import { Lost, NotDwell, Problem, Unreachable } from "./errors.js";
import type {
  Bucket,
  ChangeFields,
  Duration,
  Info,
  Instant,
  ItemResult,
  Job,
  JobsPage,
  JobState,
  LeasedJob,
  LeaseFields,
  Policy,
  PutFields,
  PutJob,
  PutResult,
  RedriveFields,
  SettleItem,
  SettleVerb,
  TestDelivered,
  Topic,
  TopicsPage,
} from "./types.js";

export interface ClientOptions {
  /** What the server asks for, if it was started with `--token`. */
  token?: string;
  /** Milliseconds that an answer may take, beyond what the server was asked to wait; 30,000 if not said. */
  timeout?: number;
}

/** On what terms a job that is there may be replaced, changed or cancelled. */
export interface Guard {
  /** Even if a consumer holds it; the lease is then lost. */
  force?: boolean;
  /** Only if it has this version. */
  ifMatch?: number;
}

export interface CallOptions {
  /** Gives the call up. A lease that waits is then given to others. */
  signal?: AbortSignal;
}

interface Request {
  method: string;
  path: string;
  body?: unknown;
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  wait?: number;
  signal?: AbortSignal | undefined;
}

/** Errors of a connection that was never there. */
const NEVER_THERE = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/** A Dwell server. */
export class Client {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #timeout: number;

  constructor(url = "http://127.0.0.1:3935", options: ClientOptions = {}) {
    const wrong = (why: string) => new TypeError(`"${url}" is not the address of a server: ${why}; try "http://127.0.0.1:3935"`);
    let parsed: URL;
    try {
      parsed = new URL(url);
    } catch {
      throw wrong("it is no URL");
    }
    if (!["http:", "https:"].includes(parsed.protocol)) throw wrong("it must start with http:// or https://");
    if (parsed.search || parsed.hash) throw wrong("it must not have a query");
    if (parsed.username || parsed.password) throw wrong("a user cannot log in; show a token instead");
    if (options.token !== undefined && !/^[\x20-\x7e]*$/.test(options.token)) {
      throw new TypeError("the token must be printable ASCII");
    }
    this.url = parsed.href.replace(/\/+$/, "");
    this.#headers = { "user-agent": "dwell-typescript/0.1.0" };
    if (options.token) this.#headers["authorization"] = `Bearer ${options.token}`;
    this.#timeout = options.timeout ?? 30_000;
  }

  // Producing

  /** Puts a job under your own id; a live one of that id is replaced, unless `if_exists` says otherwise. */
  put(topic: string, id: string, job: PutFields = {}, guard: Guard = {}): Promise<Job> {
    return this.#call({ method: "PUT", path: jobPath(topic, id), body: sent(job), ...guarded(guard) });
  }

  /** Puts a job under the id that it names, or under one that the server makes; a live one of that id refuses it. */
  create(topic: string, job: PutFields & { id?: string } = {}, options: { idempotencyKey?: string } = {}): Promise<Job> {
    const headers: Record<string, string> = {};
    if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
    return this.#call({ method: "POST", path: `/v1/topics/${name(topic)}/jobs`, body: sent(job), headers });
  }

  /** Puts up to 10,000 jobs, durable together, each judged on its own; what became of each, in order. */
  async putMany(jobs: Iterable<PutJob>): Promise<PutResult[]> {
    const body = { jobs: Array.from(jobs, sent) };
    return (await this.#call<{ results: PutResult[] }>({ method: "POST", path: "/v1/jobs", body })).results;
  }

  /** A job, with all that it carries. */
  get(topic: string, id: string): Promise<Job> {
    return this.#call({ method: "GET", path: jobPath(topic, id) });
  }

  /** Changes or moves a job. */
  change(topic: string, id: string, change: ChangeFields, guard: Guard = {}): Promise<Job> {
    return this.#call({ method: "PATCH", path: jobPath(topic, id), body: sent(change), ...guarded(guard) });
  }

  /** Cancels a job: afterwards it will not be delivered. A `Problem` with code `not_found` if there is none. */
  cancel(topic: string, id: string, guard: Guard = {}): Promise<void> {
    return this.#call({ method: "DELETE", path: jobPath(topic, id), ...guarded(guard) });
  }

  /** Cancels many jobs; what became of each, in order. */
  async cancelMany(jobs: Iterable<{ topic: string; id: string }>): Promise<ItemResult[]> {
    const body = { jobs: Array.from(jobs) };
    return (await this.#call<{ results: ItemResult[] }>({ method: "POST", path: "/v1/cancel", body })).results;
  }

  // Consuming

  /** Jobs that are due, best first, each with the token that settles it; none if none was there in time. */
  async lease(topics: string | string[], wanted: LeaseFields = {}, options: CallOptions = {}): Promise<LeasedJob[]> {
    const body = { topics: typeof topics === "string" ? [topics] : topics, ...wanted };
    const wait = millis(wanted.wait ?? 0);
    const request = { method: "POST", path: "/v1/lease", body, wait, signal: options.signal };
    return (await this.#call<{ jobs: LeasedJob[] }>(request)).jobs;
  }

  /** Settles leases, each judged on its own; what became of each, in order. */
  async settle(items: Iterable<SettleItem>): Promise<ItemResult[]> {
    const body = { items: Array.from(items) };
    return (await this.#call<{ results: ItemResult[] }>({ method: "POST", path: "/v1/settle", body })).results;
  }

  /** Done: the job is gone. */
  ack(token: string): Promise<void> {
    return this.#settle(token, "ack", {});
  }

  /** Failed: the retry policy, or `delay`, says when it comes again, or buries it. */
  nack(token: string, terms: { error?: string; delay?: Duration } = {}): Promise<void> {
    return this.#settle(token, "nack", terms);
  }

  /** Given back without blame. */
  release(token: string, terms: { delay?: Duration; priority?: number } = {}): Promise<void> {
    return this.#settle(token, "release", terms);
  }

  /** Put aside until someone redrives, moves or cancels it. */
  bury(token: string, terms: { reason?: string; priority?: number } = {}): Promise<void> {
    return this.#settle(token, "bury", terms);
  }

  /** Held for longer: the lease ends that much after now. */
  extend(token: string, terms: { ttr?: Duration } = {}): Promise<void> {
    return this.#settle(token, "extend", terms);
  }

  async #settle(token: string, verb: SettleVerb, terms: object): Promise<void> {
    await this.#call({ method: "POST", path: `/v1/leases/${name(token)}/${verb}`, body: terms });
  }

  // Topics, dead letters, the future

  /** A page of topics, by name. */
  topics(query: { prefix?: string; limit?: number; cursor?: string } = {}): Promise<TopicsPage> {
    return this.#call({ method: "GET", path: "/v1/topics", query });
  }

  /** One topic. */
  topic(topic: string): Promise<Topic> {
    return this.#call({ method: "GET", path: topicPath(topic) });
  }

  /** Replaces what a topic says for all its jobs. */
  setPolicy(topic: string, policy: Policy): Promise<Policy> {
    return this.#call({ method: "PUT", path: `${topicPath(topic)}/policy`, body: policy });
  }

  /** Deletes a topic: its jobs, leases and policy. */
  deleteTopic(topic: string): Promise<void> {
    return this.#call({ method: "DELETE", path: topicPath(topic) });
  }

  /** Stops hand-outs, for a while or until resumed. */
  pause(topic: string, length?: Duration): Promise<Topic> {
    const body = length === undefined ? {} : { for: length };
    return this.#call({ method: "POST", path: `${topicPath(topic)}/pause`, body });
  }

  /** Starts hand-outs again. */
  resume(topic: string): Promise<Topic> {
    return this.#call({ method: "POST", path: `${topicPath(topic)}/resume` });
  }

  /** A page of a topic's jobs, in due order within a state. */
  jobs(topic: string, query: { state?: JobState; limit?: number; cursor?: string } = {}): Promise<JobsPage> {
    return this.#call({ method: "GET", path: `${topicPath(topic)}/jobs`, query });
  }

  /** How many delayed and ready jobs are due when, of one topic or of all. */
  async timeline(query: { topic?: string; from?: Instant; until?: Instant; step?: Duration } = {}): Promise<Bucket[]> {
    const { topic, from, until, step } = query;
    const path = topic === undefined ? "/v1/timeline" : `${topicPath(topic)}/timeline`;
    const request = { method: "GET", path, query: { from: instant(from), until: instant(until), step } };
    return (await this.#call<{ buckets: Bucket[] }>(request)).buckets;
  }

  /** Brings dead letters back with fresh attempts, oldest first. */
  redrive(topic: string, wanted: RedriveFields = {}): Promise<{ redriven: number; remaining: number }> {
    return this.#call({ method: "POST", path: `${topicPath(topic)}/redrive`, body: wanted });
  }

  /** Drops all jobs of a topic that are in this state; how many. */
  async purge(topic: string, state: JobState, force = false): Promise<number> {
    const query = { state, force: force || undefined };
    return (await this.#call<{ purged: number }>({ method: "DELETE", path: `${topicPath(topic)}/jobs`, query })).purged;
  }

  /** Sends a sample to the topic's target, or to another, as a job would be pushed. */
  testDelivery(topic: string, sample: { deliver_to?: string; body?: unknown } = {}): Promise<TestDelivered> {
    return this.#call({ method: "POST", path: `${topicPath(topic)}/test-delivery`, body: sample });
  }

  // The server

  /** What the server is, promises and allows, and its time. */
  info(): Promise<Info> {
    return this.#call({ method: "GET", path: "/v1/info" });
  }

  /** The time of a server that was started with `--dev-clock`. */
  async clock(): Promise<string> {
    return (await this.#call<{ now: string }>({ method: "GET", path: "/v1/dev/clock" })).now;
  }

  /** Moves the time of a server that was started with `--dev-clock`; the time it is then. */
  async advanceClock(advance: Duration): Promise<string> {
    return (await this.#call<{ now: string }>({ method: "POST", path: "/v1/dev/clock", body: { advance } })).now;
  }

  // Inside

  async #call<T>(request: Request): Promise<T> {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) query.set(key, String(value));
    }
    const asked = query.toString();
    const headers: Record<string, string> = { ...this.#headers, ...request.headers };
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(new Error("it takes too long")), this.#timeout + (request.wait ?? 0));
    const outside = () => giveUp.abort(request.signal?.reason);
    if (request.signal?.aborted) outside();
    request.signal?.addEventListener("abort", outside, { once: true });
    const init: RequestInit = { method: request.method, headers, redirect: "manual", signal: giveUp.signal };
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(request.body);
    }
    try {
      const response = await fetch(`${this.url}${request.path}${asked === "" ? "" : `?${asked}`}`, init);
      return this.#answer<T>(response, await response.text());
    } catch (error) {
      request.signal?.throwIfAborted();
      throw this.#failure(error);
    } finally {
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", outside);
    }
  }

  #answer<T>(response: Response, text: string): T {
    let value: unknown;
    let readable = true;
    try {
      value = text === "" ? undefined : JSON.parse(text);
    } catch {
      readable = false;
    }
    if (response.ok && readable) return value as T;
    if (response.headers.get("content-type")?.startsWith("application/problem+json") && readable) {
      throw new Problem(value as ConstructorParameters<typeof Problem>[0]);
    }
    if ([502, 503, 504].includes(response.status)) {
      throw new Unreachable(`cannot reach ${this.url}: what stands before it answers ${response.status}`);
    }
    throw new NotDwell(`${this.url} is not a Dwell server: it answers ${response.status}`);
  }

  #failure(error: unknown): unknown {
    if (error instanceof Problem || error instanceof Unreachable || error instanceof NotDwell) return error;
    const causes: unknown[] = [];
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      causes.push(cause, ...(cause instanceof AggregateError ? cause.errors : []));
    }
    const codes = causes.map((cause) => (cause as { code?: string }).code);
    const last = causes[causes.length - 1];
    const reason = codes.includes("ECONNREFUSED") ? "connection refused" : last instanceof Error ? last.message : String(error);
    if (codes.some((code) => code !== undefined && NEVER_THERE.includes(code))) {
      return new Unreachable(`cannot reach ${this.url}: ${reason}`, { cause: error });
    }
    return new Lost(`no answer from ${this.url}: ${reason}; it may have been done all the same`, { cause: error });
  }
}

/** A name in a path. One that would make it another path is refused. */
function name(text: string): string {
  if (["", ".", ".."].includes(text)) throw new TypeError(`"${text}" cannot be a name`);
  return encodeURIComponent(text);
}

function topicPath(topic: string): string {
  return `/v1/topics/${name(topic)}`;
}

function jobPath(topic: string, id: string): string {
  return `${topicPath(topic)}/jobs/${name(id)}`;
}

function guarded(guard: Guard): Pick<Request, "query" | "headers"> {
  const headers: Record<string, string> = {};
  if (guard.ifMatch !== undefined) headers["if-match"] = `"${guard.ifMatch}"`;
  return { query: { force: guard.force || undefined }, headers };
}

/** The fields of a request as they are sent. */
function sent<T extends { at?: Instant }>(fields: T): object {
  const at = instant(fields.at);
  return at === undefined ? fields : { ...fields, at };
}

function instant(value: Instant | undefined): string | number | undefined {
  if (!(value instanceof Date)) return value;
  if (Number.isNaN(value.getTime())) throw new TypeError("the date is not a time");
  return value.toISOString();
}

const UNITS: Record<string, number> = { w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** About how many milliseconds a duration has; the server reads it exactly. */
export function millis(duration: Duration): number {
  if (typeof duration === "number") return duration;
  let total = 0;
  for (const [, digits, unit] of duration.matchAll(/(\d+)(ms|[wdhms])/g)) total += Number(digits) * (UNITS[unit ?? ""] ?? 0);
  return total;
}
