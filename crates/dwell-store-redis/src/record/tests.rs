//! What is written reads back; what was written by a release before reads as it did; damage is an error.

use std::num::NonZeroU32;

use dwell_core::{Backoff, Delay, Exponential, Ladder, NewJob, Rate, RetryPolicy, Secret, Target, TopicPolicy, When};

use super::*;

fn time(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// A job with everything set.
fn full_job() -> Job {
    let target = Target::new("https://a.example/hook", "https://a.example:443").unwrap();
    let options = Options {
        ttr: Some(Ttr::from_millis(5_000).unwrap()),
        retry: Some(Ladder::new(&[Delay::ZERO, Delay::MAX]).unwrap().into_policy()),
        ttl: Some(Ttl::MAX),
        deliver_to: Some(target),
    };
    let new = NewJob {
        options,
        priority: Priority(7),
        headers: Headers::new([("traceparent".to_owned(), "00-1".to_owned())]).unwrap(),
        body: Body::Bytes(Arc::from(vec![0, 255, 7])),
        ..NewJob::new(TopicName::new("t").unwrap(), JobId::new("ä").unwrap(), When::At(time(1_767_225_600_000)))
    };
    let (number, version) = (Number::new(64_017).unwrap(), Version::new(99).unwrap());
    let mut job = Job::create(new, number, version, time(1_767_225_500_000), 0).unwrap();
    job.attempt = 3;
    job.counters = Counters { leases: 4, timeouts: 1, releases: 2, buries: 5, kicks: u32::MAX };
    job.last_error = Some(ErrorText::new("boom"));
    let answer = DeliveryAnswer::new(b"no");
    job.deliveries = vec![
        Delivery { at: time(5), took: 12, status: None, answer: answer.clone() },
        Delivery { at: time(6), took: u64::MAX, status: Some(503), answer },
    ];
    job
}

fn stamp(job: &Job) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.time(job.created_at).time(job.due_at);
    writer.into_bytes()
}

/// Writes a job and reads it back.
fn back(job: &Job) -> Result<Job, Unreadable> {
    let parts = whole_blob(job, &stamp(job));
    read_job(job.number, &parts.blob, &write_state(job, 1), Some(&parts.body))
}

#[test]
fn jobs_in_every_phase_read_back() {
    let job = full_job();
    let token = LeaseToken { number: job.number, version: Version::new(7).unwrap(), secret: u64::MAX };
    let lease = |consumer| Lease { token, expires_at: time(9), ttr: Ttr::MAX, consumer };
    for phase in [
        Phase::Waiting,
        Phase::Leased(lease(None)),
        Phase::Leased(lease(Some(Consumer::new("worker").unwrap()))),
        Phase::Buried(Burial { at: time(8), reason: Reason::new("bad address").unwrap() }),
    ] {
        let job = Job { phase, ..job.clone() };
        assert_eq!(back(&job), Ok(job));
    }
}

#[test]
fn large_bodies_are_kept_apart() {
    for (length, apart) in [(INLINE_BODY, false), (INLINE_BODY + 1, true)] {
        let job = Job { body: Body::Json(vec![b' '; length].into()), ..full_job() };
        assert_eq!(whole_blob(&job, &stamp(&job)).body.is_empty(), !apart);
        assert_eq!(back(&job), Ok(job));
    }
}

#[test]
fn a_job_that_nothing_happened_to_needs_no_state() {
    let mut job = full_job();
    (job.attempt, job.counters, job.last_error, job.deliveries) = (0, Counters::default(), None, Vec::new());
    job.version = Version::new(job.number.get()).unwrap();
    let parts = whole_blob(&job, &stamp(&job));
    assert_eq!(read_job(job.number, &parts.blob, &[], Some(&parts.body)), Ok(job));
}

#[test]
fn the_heads_are_where_the_scripts_look_for_them() {
    let job = full_job();
    let blob = whole_blob(&job, &stamp(&job)).blob;
    assert_eq!(blob[12..16], 7_u32.to_be_bytes(), "priority");
    assert_eq!(blob[16], BYTES | EXTRAS | RULES, "flags");
    assert_eq!(blob[17..21], 5_000_u32.to_be_bytes(), "ttr");
    assert_eq!(blob[27..29], job.line().index().to_be_bytes(), "line");
    assert_eq!(blob[29..31], 3_u16.to_be_bytes(), "length of the body");
    assert_eq!(blob[31..33], [1, b't'], "topic");
    assert_eq!(blob[33], 2, "length of the id");
    let plain = Job { options: Options::default(), headers: Headers::default(), ..job.clone() };
    let blob = whole_blob(&plain, &stamp(&plain)).blob;
    assert_eq!(blob[16], BYTES, "flags");
    assert_eq!(blob[17..21], [0, 3, 1, b't'], "length of the body, topic");
    assert_eq!(blob[24..], [0, 255, 7], "nothing between the id and the body");
    let state = write_state(&job, 0x0102_0304_0506_0708);
    assert_eq!((state[0], &state[1..8]), (b'w', &version_bytes(job.version)[..]));
    assert_eq!(state[48..56], [1, 2, 3, 4, 5, 6, 7, 8], "request");
}

#[test]
fn policies_read_back() {
    let exponential = Exponential::new(Delay::ZERO, 1.5, Delay::MAX, 0.25).unwrap();
    let retry = RetryPolicy { attempts: NonZeroU32::MAX, backoff: Backoff::Exponential(exponential) };
    let policy = TopicPolicy {
        ttr: Some(Ttr::MIN),
        retry: Some(retry),
        ttl: Some(Ttl::MIN),
        deliver_to: Some(Target::new("a", "b").unwrap()),
        deliver_secrets: vec![Secret::new(b"one").unwrap(), Secret::new(&[0; 255]).unwrap()],
        max_in_flight: NonZeroU32::new(9),
        max_rate: Rate::per_second(0.001),
        keep_buried: Some(Delay::ZERO),
        keep_done: Some(Delay::MAX),
    };
    assert_eq!(read_policy(&write_policy(&policy)), Ok(policy));
    assert_eq!(read_policy(&write_policy(&TopicPolicy::default())), Ok(TopicPolicy::default()));
}

#[test]
fn whatever_is_cut_off_is_an_error() {
    let job = Job { phase: Phase::Waiting, ..full_job() };
    let (parts, state) = (whole_blob(&job, &stamp(&job)), write_state(&job, 1));
    for length in 0..parts.blob.len() {
        assert!(read_job(job.number, &parts.blob[..length], &state, None).is_err(), "a blob of {length} bytes");
    }
    let policy = write_policy(&TopicPolicy::default());
    for length in 0..policy.len() {
        assert!(read_policy(&policy[..length]).is_err(), "a policy of {length} bytes");
    }
}
