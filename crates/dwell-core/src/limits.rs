//! Every limit in one place, each with its reason. Everything has a limit.

/// One second, one minute, one hour and one day in milliseconds, so that the limits below can be read.
pub const SECOND: u64 = 1_000;
/// See [`SECOND`].
pub const MINUTE: u64 = 60 * SECOND;
/// See [`SECOND`].
pub const HOUR: u64 = 60 * MINUTE;
/// See [`SECOND`].
pub const DAY: u64 = 24 * HOUR;

/// How far ahead a job may be due: ten years. Anything further is a unit mix-up (microseconds for milliseconds).
pub const MAX_DELAY: u64 = 3_650 * DAY;
/// The last instant there is: 9999-12-31T23:59:59.999Z, so that every instant prints as RFC 3339.
pub const MAX_TIMESTAMP: u64 = 253_402_300_799_999;
/// The shortest time-to-run. Under a second a lease would run out during an ordinary network hiccup.
pub const MIN_TTR: u64 = SECOND;
/// The longest time-to-run. A crashed consumer's job waits this long, so a day is already generous.
pub const MAX_TTR: u64 = 24 * HOUR;
/// Time-to-run where neither job nor topic says otherwise.
pub const DEFAULT_TTR: u64 = 60 * SECOND;
/// `Retry-After` and explicit retry delays of push targets are cut to this: a target cannot park a job for ever.
pub const MAX_RETRY_AFTER: u64 = 24 * HOUR;

/// Bytes of a topic name. beanstalk tubes have 200 too.
pub const MAX_TOPIC_NAME: usize = 200;
/// Bytes of a job id: what fits the key columns and paths people already have.
pub const MAX_JOB_ID: usize = 255;
/// Bytes of a body unless the operator raises it (to at most [`MAX_BODY`]).
pub const DEFAULT_MAX_BODY: usize = 1 << 20;
/// Bytes of a body at the very most: two must fit a 32 MiB journal batch.
pub const MAX_BODY: usize = 16 << 20;
/// Bytes of all header names and values together.
pub const MAX_HEADERS: usize = 4 << 10;
/// Bytes of a consumer's own name.
pub const MAX_CONSUMER: usize = 255;
/// Bytes kept of an error text; longer ones are cut, so that a stack trace never costs a nack.
pub const MAX_ERROR: usize = 1 << 10;
/// Bytes of a reason for burying.
pub const MAX_REASON: usize = 255;
/// Bytes of a target's address.
pub const MAX_TARGET: usize = 2 << 10;
/// Secrets a topic may sign with at once: the current one and the one being rotated out.
pub const MAX_SECRETS: usize = 2;
/// Bytes of one signing secret.
pub const MAX_SECRET: usize = 255;
/// Deliveries remembered with a job, newest last. Twenty attempts are the default policy.
pub const MAX_DELIVERIES: usize = 20;
/// Bytes kept of a target's answer.
pub const MAX_DELIVERY_ANSWER: usize = 256;

/// Steps of a retry ladder.
pub const MAX_LADDER: usize = 100;
/// Attempts where neither job nor topic says otherwise.
pub const DEFAULT_ATTEMPTS: u32 = 20;
/// The largest factor of an exponential backoff.
pub const MAX_FACTOR: f64 = 1_000.0;

/// Items of one batch call.
pub const MAX_BATCH: usize = 10_000;
/// Jobs of one lease call.
pub const MAX_LEASE: u32 = 1_000;
/// Bytes of bodies in the answer of one lease or list call; one job always fits.
pub const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Topics of one lease call.
pub const MAX_LEASE_TOPICS: usize = 100;
/// Tubes that one beanstalk connection may watch: topics of one lease call that stays open.
pub const MAX_WATCHED: usize = 1_000;
/// Milliseconds a lease call may wait: shorter than the idle time-outs of common proxies.
pub const MAX_WAIT: u64 = 60 * SECOND;
/// Jobs or topics of one page unless asked otherwise.
pub const DEFAULT_PAGE: u32 = 100;
/// Jobs or topics of one page.
pub const MAX_PAGE: u32 = 1_000;
/// Buckets of one timeline.
pub const MAX_BUCKETS: u32 = 1_000;
/// Dead letters of one redrive call unless asked otherwise.
pub const DEFAULT_REDRIVE: u32 = 1_000;
/// Dead letters of one redrive call.
pub const MAX_REDRIVE: u32 = 10_000;
/// Jobs a second, at the most, of a topic's `max_rate` or of a redrive's `rate`.
pub const MAX_RATE: f64 = 1_000_000.0;
/// Jobs a second, at the least: one in about 17 minutes. Slower is a schedule, not a rate.
pub const MIN_RATE: f64 = 0.001;

/// Topics a store holds unless the operator raises it.
pub const DEFAULT_MAX_TOPICS: usize = 100_000;
/// Lines of a topic: 0 is pull, the others are hashes of push origins.
pub const LINES: u16 = 1_024;
/// Numbers and versions stay below this, so that they survive JSON readers that know only doubles.
pub const NUMBER_END: u64 = 1 << 53;
/// How often a store looks for due work even when nothing woke it: the bound on lateness when a wake-up is lost.
pub const SWEEP: u64 = SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    /// What users were promised, spelled out: a change here changes the API.
    #[test]
    fn limits_are_what_the_api_promises() {
        assert_eq!((MAX_DELAY, MIN_TTR, MAX_TTR, DEFAULT_TTR), (315_360_000_000, 1_000, 86_400_000, 60_000));
        assert_eq!((MAX_TOPIC_NAME, MAX_JOB_ID, MAX_HEADERS, DEFAULT_MAX_BODY), (200, 255, 4_096, 1_048_576));
        assert_eq!((MAX_BATCH, MAX_LEASE, MAX_LEASE_TOPICS, MAX_WAIT), (10_000, 1_000, 100, 60_000));
        assert_eq!((DEFAULT_PAGE, MAX_PAGE, MAX_BUCKETS, MAX_ANSWER_BYTES), (100, 1_000, 1_000, 8_388_608));
        assert_eq!((DEFAULT_REDRIVE, MAX_REDRIVE, DEFAULT_ATTEMPTS), (1_000, 10_000, 20));
        assert_eq!((MAX_RETRY_AFTER, SWEEP), (86_400_000, 1_000));
    }
}
