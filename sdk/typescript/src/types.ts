/** What travels: the objects of the HTTP API, as they are. */

/** `"1h30m"`, or milliseconds. */
export type Duration = string | number;
/** RFC 3339 with a zone, milliseconds since 1970, or a Date. */
export type Instant = string | number | Date;

export type JobState = "delayed" | "ready" | "leased" | "buried" | "done";
export type IfExists = "replace" | "keep" | "reject";
export type Outcome = "created" | "replaced" | "kept";
export type SettleVerb = "ack" | "nack" | "release" | "bury" | "extend";

/** How a failed job is tried again: `{attempts: 3, backoff: ["15s", "3m"]}`. */
export interface RetryPolicy {
  attempts?: number;
  backoff?: Duration[] | { initial?: Duration; factor?: number; max?: Duration; jitter?: number };
}

/** What a put can say. Due after `delay`, at `at`, or now. */
export interface PutFields {
  delay?: Duration;
  at?: Instant;
  body?: unknown;
  body_base64?: string;
  headers?: Record<string, string>;
  priority?: number;
  ttr?: Duration;
  retry?: RetryPolicy;
  ttl?: Duration;
  jitter?: Duration;
  deliver_to?: string;
  if_exists?: IfExists;
}

/** A job of `putMany`. */
export interface PutJob extends PutFields {
  topic: string;
  id?: string;
}

/** What a change can say. What is not named stays; `null` clears an optional field. */
export interface ChangeFields {
  delay?: Duration;
  at?: Instant;
  body?: unknown;
  body_base64?: string;
  headers?: Record<string, string> | null;
  priority?: number | null;
  ttr?: Duration | null;
  retry?: RetryPolicy | null;
  ttl?: Duration | null;
  deliver_to?: string | null;
}

/** A job, as every read returns it. Fields that do not apply are absent. */
export interface Job {
  topic: string;
  id: string;
  number: number;
  state: JobState;
  body?: unknown;
  body_base64?: string;
  headers?: Record<string, string>;
  created_at: string;
  due_at: string;
  version: number;
  priority?: number;
  ttr_ms?: number;
  attempt: number;
  retry?: RetryPolicy;
  deliver_to?: string;
  attempts?: Array<{ at: string; took_ms: number; status?: number; answer?: string; error?: string }>;
  expires_at?: string;
  last_error?: string;
  buried_at?: string;
  buried_reason?: string;
  lease_expires_at?: string;
  consumer?: string;
  done_at?: string;
  outcome?: Outcome;
  token?: string;
}

/** A job in a consumer's hands. */
export interface LeasedJob extends Job {
  token: string;
}

/** What is wrong with which field. */
export interface FieldError {
  field: string;
  reason: string;
}

/** What became of one item of a batch. */
export interface ItemResult {
  status: number;
  code?: string;
  detail?: string;
  errors?: FieldError[];
}

/** What became of one job of a batch. */
export interface PutResult extends ItemResult {
  outcome?: Outcome;
  topic?: string;
  id?: string;
  due_at?: string;
  version?: number;
}

/** One lease to be settled; of the other fields, those that fit the verb. */
export interface SettleItem {
  token: string;
  verb: SettleVerb;
  delay?: Duration;
  error?: string;
  reason?: string;
  priority?: number;
  ttr?: Duration;
}

export interface LeaseFields {
  max?: number;
  wait?: Duration;
  ttr?: Duration;
  consumer?: string;
  auto_ack?: boolean;
}

/** What a topic says for all its jobs. */
export interface Policy {
  ttr?: Duration;
  retry?: RetryPolicy;
  ttl?: Duration;
  deliver_to?: string;
  deliver_secret?: string | string[] | null;
  max_in_flight?: number;
  max_rate?: number;
  keep_buried?: Duration;
  keep_done?: Duration;
}

/** What a topic looks like now. */
export interface Topic {
  name: string;
  counts: { delayed: number; ready: number; leased: number; buried: number };
  next_due_at?: string;
  oldest_ready_at?: string;
  totals: Record<string, number>;
  waiting: number;
  policy: Policy;
  paused: boolean;
  paused_until?: string;
}

export interface TopicsPage {
  topics: Topic[];
  next_cursor?: string;
}

export interface JobsPage {
  jobs: Job[];
  next_cursor?: string;
}

/** One stretch of a timeline. */
export interface Bucket {
  from: string;
  until: string;
  count: number;
}

export interface RedriveFields {
  ids?: string[];
  reason?: string;
  max?: number;
  delay?: Duration;
  rate?: number;
}

export interface TestDelivered {
  delivered: boolean;
  deliver_to: string;
  webhook_id: string;
  signed: boolean;
  took_ms: number;
  status?: number;
  answer?: string;
  error?: string;
}

export interface Info {
  version: string;
  store: string;
  durability: string;
  limits: Record<string, number>;
  now: string;
}
