/** What can go wrong with a call. */
import type { FieldError } from "./types.js";

/** Why a call did not go well. */
export class DwellError extends Error {
  override name = "DwellError";

  /** Whether it is worth asking again: the fault is on the way, or passes by itself. */
  passes(): boolean {
    return false;
  }
}

const PASSING = ["rate_limited", "overloaded", "storage_failed", "storage_full", "internal"];

/** The server said no, and why. `code` is one of the API's stable codes, such as `job_leased`. */
export class Problem extends DwellError {
  override name = "Problem";
  readonly code: string;
  readonly status: number;
  readonly errors: FieldError[];

  constructor(problem: { code?: string; status?: number; detail?: string; title?: string; errors?: FieldError[] }) {
    super(problem.detail ?? problem.title ?? problem.code ?? "refused");
    this.code = problem.code ?? "";
    this.status = problem.status ?? 0;
    this.errors = problem.errors ?? [];
  }

  override passes(): boolean {
    return PASSING.includes(this.code);
  }
}

/** There is no connection to the server: nothing was done. */
export class Unreachable extends DwellError {
  override name = "Unreachable";

  override passes(): boolean {
    return true;
  }
}

/** The server was reached and did not answer: what was asked may have been done. */
export class Lost extends DwellError {
  override name = "Lost";

  override passes(): boolean {
    return true;
  }
}

/** Something answers that is not a Dwell server. */
export class NotDwell extends DwellError {
  override name = "NotDwell";
}
