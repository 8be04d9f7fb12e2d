/**
 * Client of Dwell, a durable delay queue: give it a job and a time, and it hands the job over at that time.
 *
 * @packageDocumentation
 */
export { Client, type CallOptions, type ClientOptions, type Guard } from "./client.js";
export { DwellError, Lost, NotDwell, Problem, Unreachable } from "./errors.js";
export * from "./types.js";
export { Bury, Retry, Work, Worker, type Handler, type Tally, type WorkerEvent, type WorkerOptions } from "./worker.js";
