/**
 * A worker: takes jobs as they become due, calls a handler for each, and settles them by what it says.
 *
 * - Leases are extended in the background while a handler runs. If one is lost all the same, `work.lost` is aborted, and
 *   what the handler says is not sent: the job is somebody else's by then.
 * - A server that is away is asked again, after rests that grow to 5 s.
 * - `stop()` ends it: what is under way is finished and settled, what came and was not begun is released, uncounted.
 */
import { Client, millis } from "./client.js";
import { DwellError } from "./errors.js";
import type { Duration, LeasedJob, SettleItem } from "./types.js";

/** Milliseconds that one request for jobs waits. */
const WAIT = 20_000;
/** The first rest after a server did not answer, and the longest. */
const FIRST_REST = 100;
const LONGEST_REST = 5_000;
/** How long to rest after an answer that came too soon, as from a server that is about to stop. */
const SOON = 1_000;
/** Jobs of one request, at the most: the server allows no more. */
const MOST = 1_000;

/** Thrown by a handler: a failed attempt. The job comes again `after` that long, or when its retry policy says. */
export class Retry extends Error {
  override name = "Retry";
  readonly after: Duration | undefined;

  constructor(reason = "", options: { after?: Duration } = {}) {
    super(reason);
    this.after = options.after;
  }

  /** Comes again that long from now. */
  static after(after: Duration, reason = ""): Retry {
    return new Retry(reason, { after });
  }
}

/** Thrown by a handler: never try again. The job is a dead letter, for people to look at and redrive. */
export class Bury extends Error {
  override name = "Bury";
}

/** A job to be done. */
export class Work {
  readonly job: LeasedJob;
  readonly #lost = new AbortController();

  constructor(job: LeasedJob) {
    this.job = job;
  }

  get topic(): string {
    return this.job.topic;
  }

  get id(): string {
    return this.job.id;
  }

  /** The body; `job.body_base64` has one that is opaque bytes. */
  get body(): unknown {
    return this.job.body;
  }

  /** Deliveries so far that count, this one included. */
  get attempt(): number {
    return this.job.attempt;
  }

  /** Aborted when the lease is lost: somebody else may have the job by then. Give it to what can be given up. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** @internal */
  lose(): void {
    this.#lost.abort(new Error("the lease is lost"));
  }
}

/** Done if it returns; failed if it throws. */
export type Handler = (work: Work) => unknown;

/** Something that a log may want to know. */
export interface WorkerEvent {
  kind: "away" | "failed" | "lease_lost";
  detail: string;
  job?: LeasedJob;
}

export interface WorkerOptions {
  /** How many jobs may be under way at once; 1 if not said. */
  concurrency?: number;
  /** How long a lease lasts between two extensions; what the job or its topic says if not said. */
  ttr?: Duration;
  /** What to be called, for people who look who holds a job. */
  consumer?: string;
  onEvent?: (event: WorkerEvent) => void;
}

/** What became of the jobs of a worker. */
export interface Tally {
  acked: number;
  nacked: number;
  buried: number;
  released: number;
  lost: number;
}

/** Takes jobs and has them done. */
export class Worker {
  readonly #client: Client;
  readonly #topics: string[];
  readonly #handler: Handler;
  readonly #options: WorkerOptions;
  readonly #concurrency: number;
  readonly #stopping = new AbortController();
  readonly #drained = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  #changed = () => {};
  readonly #tally: Tally = { acked: 0, nacked: 0, buried: 0, released: 0, lost: 0 };

  constructor(client: Client, topics: string | string[], handler: Handler, options: WorkerOptions = {}) {
    this.#client = client;
    this.#topics = typeof topics === "string" ? [topics] : topics;
    this.#handler = handler;
    this.#options = options;
    this.#concurrency = options.concurrency ?? 1;
    if (!Number.isInteger(this.#concurrency) || this.#concurrency < 1) throw new RangeError("concurrency must be at least 1");
  }

  /** Works until `stop` is called, then finishes what is under way. Rejects only if the server refuses the worker itself. */
  async run(): Promise<Tally> {
    const asking = this.#ask();
    // The last question is still open while others finish: what comes of it is given back.
    const stopped = aborted(this.#stopping.signal).then(async () => {
      await Promise.all(this.#underWay);
      this.#drained.abort();
    });
    try {
      await asking;
    } finally {
      this.stop();
      await stopped;
      // What was begun just before it was told to stop.
      await Promise.all(this.#underWay);
    }
    return this.#tally;
  }

  /** Begins no more jobs. `run` resolves when those under way are done. */
  stop(): void {
    this.#stopping.abort();
    this.#changed();
  }

  /** Waits until a job ends, or the worker is told to stop. */
  #change(): Promise<void> {
    return new Promise((resolve) => (this.#changed = resolve));
  }

  async #ask(): Promise<void> {
    let rest = FIRST_REST;
    while (!this.#stopping.signal.aborted) {
      const free = this.#concurrency - this.#underWay.size;
      if (free <= 0) {
        await this.#change();
        continue;
      }
      const askedAt = performance.now();
      let jobs: LeasedJob[];
      try {
        jobs = await this.#lease(Math.min(free, MOST));
        rest = FIRST_REST;
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        if (!(error instanceof DwellError) || !error.passes()) throw error;
        this.#tell({ kind: "away", detail: `${error.message}; asking again in ${rest} ms` });
        await sleep(spread(rest), this.#stopping.signal);
        rest = Math.min(rest * 2, LONGEST_REST);
        continue;
      }
      if (this.#stopping.signal.aborted) return this.#release(jobs);
      for (const job of jobs) this.#begin(job);
      if (jobs.length === 0 && performance.now() - askedAt < WAIT / 2) await sleep(SOON, this.#stopping.signal);
    }
  }

  #lease(max: number): Promise<LeasedJob[]> {
    const { ttr, consumer } = this.#options;
    const wanted = { max, wait: WAIT, ...(ttr === undefined ? {} : { ttr }), ...(consumer === undefined ? {} : { consumer }) };
    return this.#client.lease(this.#topics, wanted, { signal: this.#drained.signal });
  }

  async #release(jobs: LeasedJob[]): Promise<void> {
    if (jobs.length === 0) return;
    try {
      const results = await this.#client.settle(jobs.map(({ token }) => ({ token, verb: "release" as const })));
      this.#tally.released += results.filter((result) => result.code === undefined).length;
    } catch (error) {
      this.#tell({ kind: "away", detail: String(error) });
    }
  }

  #begin(job: LeasedJob): void {
    const doing: Promise<void> = this.#do(job).finally(() => {
      this.#underWay.delete(doing);
      this.#changed();
    });
    this.#underWay.add(doing);
  }

  async #do(job: LeasedJob): Promise<void> {
    const work = new Work(job);
    const ttr = this.#options.ttr === undefined ? (job.ttr_ms ?? 60_000) : millis(this.#options.ttr);
    const hold = new Hold(this.#client, work, ttr, (detail) => this.#tell({ kind: "away", detail, job }));
    let said: SettleItem = { token: job.token, verb: "ack" };
    try {
      await this.#handler(work);
    } catch (error) {
      said = verdict(job.token, error);
      this.#tell({ kind: "failed", detail: said.error ?? said.reason ?? "", job });
    }
    const heard = await hold.settle(said);
    if (!heard) {
      this.#tally.lost += 1;
      this.#tell({ kind: "lease_lost", detail: "what its handler said was not heard", job });
    } else if (said.verb === "ack") {
      this.#tally.acked += 1;
    } else if (said.verb === "bury") {
      this.#tally.buried += 1;
    } else {
      this.#tally.nacked += 1;
    }
  }

  #tell(event: WorkerEvent): void {
    this.#options.onEvent?.(event);
  }
}

/** A lease that is extended until it is settled. */
class Hold {
  #ends: number;
  #timer: NodeJS.Timeout | undefined;
  #done = false;

  constructor(
    readonly client: Client,
    readonly work: Work,
    readonly ttr: number,
    readonly away: (detail: string) => void,
  ) {
    this.#ends = performance.now() + ttr;
    this.#plan(ttr / 3);
  }

  #plan(after: number): void {
    this.#timer = setTimeout(() => void this.#extend(), after);
  }

  async #extend(): Promise<void> {
    const askedAt = performance.now();
    try {
      await this.client.extend(this.work.job.token, { ttr: Math.ceil(this.ttr) });
      this.#ends = askedAt + this.ttr;
      if (!this.#done) this.#plan(this.ttr / 3);
    } catch (error) {
      if (this.#done) return;
      if (error instanceof DwellError && error.passes() && performance.now() < this.#ends) {
        this.away(error.message);
        this.#plan(Math.min(1_000, this.ttr / 6));
      } else {
        this.work.lose();
      }
    }
  }

  /** Says what became of the job, until that was heard or the lease has run out; whether it was heard. */
  async settle(said: SettleItem): Promise<boolean> {
    let rest = FIRST_REST;
    try {
      while (!this.work.lost.aborted) {
        try {
          const [result] = await this.client.settle([said]);
          return result !== undefined && result.code === undefined;
        } catch (error) {
          if (!(error instanceof DwellError)) throw error;
          this.away(error.message);
          if (!error.passes() || performance.now() > this.#ends) return false;
          await sleep(spread(rest));
          rest = Math.min(rest * 2, LONGEST_REST);
        }
      }
      return false;
    } finally {
      this.#done = true;
      clearTimeout(this.#timer);
    }
  }
}

function verdict(token: string, error: unknown): SettleItem {
  if (error instanceof Bury) return { token, verb: "bury", reason: shortened(error.message, 255) || "buried" };
  if (error instanceof Retry) {
    const delay = error.after === undefined ? {} : { delay: error.after };
    return { token, verb: "nack", error: shortened(error.message, 1_024), ...delay };
  }
  return { token, verb: "nack", error: shortened(String(error), 1_024) };
}

/** A text of at most so many bytes, cut between characters. */
function shortened(text: string, most: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= most) return text;
  let end = most;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

/** Half of it, and a random share of the other half. */
function spread(rest: number): number {
  return rest * (0.5 + Math.random() / 2);
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

function sleep(length: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, length);
    signal?.addEventListener("abort", done, { once: true });
  });
}
