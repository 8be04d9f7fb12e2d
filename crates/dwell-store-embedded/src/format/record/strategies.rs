//! Arbitrary records, extremes included.

use std::num::NonZeroU32;
use std::sync::Arc;

use dwell_core::{
    Backoff, Body, Burial, Consumer, Counters, Delay, Delivery, DeliveryAnswer, DoneJob, ErrorText, Exponential,
    Headers, Job, JobId, Ladder, Lease, LeaseToken, Number, Options, Pause, Phase, Priority, Rate, Reason, RetryPolicy,
    Secret, Target, Timestamp, TopicName, TopicPolicy, Totals, Ttl, Ttr, Version, limits,
};
use proptest::option;
use proptest::prelude::*;

use super::*;

/// What the topic of every job in the tests is called.
pub(crate) fn topic_name() -> TopicName {
    TopicName::new("topic").unwrap()
}

/// A number up to `most`: the ends, small ones, and any.
fn up_to(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(most), 0..=most.min(300), 0..=most]
}

fn number() -> impl Strategy<Value = Number> {
    up_to(limits::NUMBER_END - 1).prop_map(|n| Number::new(n).unwrap())
}

fn version() -> impl Strategy<Value = Version> {
    up_to(limits::NUMBER_END - 1).prop_map(|n| Version::new(n).unwrap())
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    up_to(limits::MAX_TIMESTAMP).prop_map(|n| Timestamp::from_millis(n).unwrap())
}

fn delay() -> impl Strategy<Value = Delay> {
    up_to(limits::MAX_DELAY).prop_map(Delay::saturating)
}

fn ttr() -> impl Strategy<Value = Ttr> {
    up_to(limits::MAX_TTR - limits::MIN_TTR).prop_map(|n| Ttr::from_millis(limits::MIN_TTR + n).unwrap())
}

fn ttl() -> impl Strategy<Value = Ttl> {
    up_to(limits::MAX_DELAY - 1).prop_map(|n| Ttl::from_millis(1 + n).unwrap())
}

fn count() -> impl Strategy<Value = u32> {
    up_to(u32::MAX.into()).prop_map(|n| u32::try_from(n).unwrap())
}

fn non_zero() -> impl Strategy<Value = NonZeroU32> {
    count().prop_map(|n| NonZeroU32::new(n.max(1)).unwrap())
}

/// A text of 1 to `most` bytes without control characters.
fn text(most: usize) -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), Just("x".repeat(most)), "[a-zA-Z0-9é订]{1,40}"]
}

fn job_id() -> impl Strategy<Value = JobId> {
    text(limits::MAX_JOB_ID).prop_map(|id| JobId::new(&id).unwrap())
}

fn target() -> BoxedStrategy<Target> {
    (text(limits::MAX_TARGET), text(limits::MAX_TARGET)).prop_map(|(a, o)| Target::new(&a, &o).unwrap()).boxed()
}

fn exponential() -> BoxedStrategy<Exponential> {
    let factor = prop_oneof![Just(1.0), Just(limits::MAX_FACTOR), 1.0..limits::MAX_FACTOR];
    let jitter = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
    (delay(), delay(), factor, jitter)
        .prop_map(|(a, b, factor, jitter)| Exponential::new(a.min(b), factor, a.max(b), jitter).unwrap())
        .boxed()
}

fn retry() -> BoxedStrategy<RetryPolicy> {
    let ladder = prop_oneof![prop::collection::vec(delay(), 1..5), prop::collection::vec(delay(), limits::MAX_LADDER)];
    let backoff = prop_oneof![
        ladder.prop_map(|steps| Backoff::Ladder(Ladder::new(&steps).unwrap())),
        exponential().prop_map(Backoff::Exponential),
    ];
    (non_zero(), backoff).prop_map(|(attempts, backoff)| RetryPolicy { attempts, backoff }).boxed()
}

fn phase() -> BoxedStrategy<Phase> {
    let consumer = option::of(text(limits::MAX_CONSUMER).prop_map(|name| Consumer::new(&name).unwrap()));
    let token = (number(), version(), any::<u64>()).prop_map(|(number, version, secret)| LeaseToken {
        number,
        version,
        secret,
    });
    let lease = (token, timestamp(), ttr(), consumer).prop_map(|(token, expires_at, ttr, consumer)| Lease {
        token,
        expires_at,
        ttr,
        consumer,
    });
    let burial = (timestamp(), text(limits::MAX_REASON))
        .prop_map(|(at, reason)| Burial { at, reason: Reason::new(&reason).unwrap() });
    prop_oneof![Just(Phase::Waiting), lease.prop_map(Phase::Leased), burial.prop_map(Phase::Buried)].boxed()
}

fn options() -> BoxedStrategy<Options> {
    (option::of(ttr()), option::of(retry()), option::of(ttl()), option::of(target()))
        .prop_map(|(ttr, retry, ttl, deliver_to)| Options { ttr, retry, ttl, deliver_to })
        .boxed()
}

fn counters() -> impl Strategy<Value = Counters> {
    let some = (count(), count(), count(), count(), count())
        .prop_map(|(leases, timeouts, releases, buries, kicks)| Counters { leases, timeouts, releases, buries, kicks });
    prop_oneof![Just(Counters::default()), some]
}

fn deliveries() -> BoxedStrategy<Vec<Delivery>> {
    let answer = prop::collection::vec(any::<u8>(), 0..=limits::MAX_DELIVERY_ANSWER);
    let delivery = (timestamp(), up_to(u64::MAX), any::<Option<u16>>(), answer)
        .prop_map(|(at, took, status, answer)| Delivery { at, took, status, answer: DeliveryAnswer::new(&answer) });
    prop_oneof![Just(Vec::new()), prop::collection::vec(delivery, 1..=limits::MAX_DELIVERIES)].boxed()
}

fn headers() -> BoxedStrategy<Headers> {
    let some = prop::collection::btree_map("[a-z]{0,20}", ".{0,40}", 1..10);
    prop_oneof![
        Just(Headers::default()),
        Just(Headers::new([(String::new(), "x".repeat(limits::MAX_HEADERS))]).unwrap()),
        some.prop_map(|headers| Headers::new(headers).unwrap()),
    ]
    .boxed()
}

fn body() -> BoxedStrategy<Body> {
    let bytes = prop_oneof![prop::collection::vec(any::<u8>(), 0..400), Just(vec![7; 100_000])];
    (bytes, any::<bool>())
        .prop_map(|(bytes, json)| if json { Body::Json(Arc::from(bytes)) } else { Body::Bytes(Arc::from(bytes)) })
        .boxed()
}

prop_compose! {
    fn job()(
        (id, number, version, phase) in (job_id(), number(), version(), phase()),
        (created_at, due_at, other, usual) in (timestamp(), timestamp(), timestamp(), any::<bool>()),
        priority in prop_oneof![Just(Priority::DEFAULT), count().prop_map(Priority)],
        (attempt, options, counters) in (count(), options(), counters()),
        last_error in option::of(text(limits::MAX_ERROR).prop_map(|text| ErrorText::new(&text))),
        (deliveries, headers, body) in (deliveries(), headers(), body()),
    ) -> Job {
        let ttl_from = if usual { created_at.max(due_at) } else { other };
        Job {
            topic: topic_name(), id, number, version, phase, created_at, due_at, ttl_from, priority, attempt, options,
            counters, last_error, deliveries, headers, body,
        }
    }
}

prop_compose! {
    fn done()(
        (id, number, version) in (job_id(), number(), version()),
        (created_at, due_at, done_at) in (timestamp(), timestamp(), timestamp()),
        attempt in count(),
    ) -> DoneJob {
        DoneJob { topic: topic_name(), id, number, version, created_at, due_at, attempt, done_at }
    }
}

prop_compose! {
    fn policy()(
        (ttr, retry, ttl, deliver_to) in (option::of(ttr()), option::of(retry()), option::of(ttl()), option::of(target())).boxed(),
        secrets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=limits::MAX_SECRET), 0..=limits::MAX_SECRETS),
        max_in_flight in option::of(non_zero()),
        // In thousandths, as rates are.
        rate in option::of(up_to(999_999_999)),
        (keep_buried, keep_done) in (option::of(delay()), option::of(delay())),
    ) -> TopicPolicy {
        let deliver_secrets = secrets.iter().map(|key| Secret::new(key).unwrap()).collect();
        let thousandths = rate.map(|rate| u32::try_from(rate + 1).unwrap());
        let max_rate = thousandths.map(|rate| Rate::per_second(f64::from(rate) / 1_000.0).unwrap());
        TopicPolicy { ttr, retry, ttl, deliver_to, deliver_secrets, max_in_flight, max_rate, keep_buried, keep_done }
    }
}

fn totals() -> impl Strategy<Value = Totals> {
    prop::array::uniform10(up_to(u64::MAX)).prop_map(|[a, b, c, d, e, f, g, h, i, j]| Totals {
        put: a,
        leased: b,
        acked: c,
        nacked: d,
        timed_out: e,
        released: f,
        buried: g,
        redriven: h,
        cancelled: i,
        purged: j,
    })
}

fn topic_id() -> impl Strategy<Value = TopicId> {
    count().prop_map(TopicId)
}

/// Any topic.
pub(crate) fn topic() -> impl Strategy<Value = TopicRecord> {
    let name = prop_oneof![Just("x".repeat(limits::MAX_TOPIC_NAME)), "[a-zA-Z0-9._+/;$()]{3,40}"];
    let pause = prop_oneof![Just(Pause::Off), Just(Pause::On), timestamp().prop_map(Pause::Until)];
    let fields = (topic_id(), name, policy().boxed(), pause, totals().boxed(), any::<u64>());
    fields.prop_map(|(id, name, policy, pause, totals, forgotten)| TopicRecord {
        id,
        name: TopicName::new(&name).unwrap(),
        policy,
        pause,
        totals,
        forgotten,
    })
}

/// Any record at all.
fn stale() -> impl Strategy<Value = Tombstone> {
    let slice = (topic_id(), 0..limits::LINES, 0..=Lane::LAST.index());
    (slice, timestamp(), number(), version(), any::<u64>()).prop_map(
        |((topic, line, lane), due_at, number, version, since)| {
            let (line, lane) = (Line::from_index(line).unwrap(), Lane::from_index(lane));
            Tombstone { key: Key::new(Slice { topic, line, lane }, (due_at, number)), version, since }
        },
    )
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let cause = prop::sample::select(Cause::ALL);
    let job = (topic_id(), cause, job().boxed(), any::<bool>()).prop_map(|(topic, cause, mut job, here)| {
        let body = if here { BodyPart::Here } else { BodyPart::Kept };
        if !here {
            job.body = Body::default();
        }
        JobRecord { topic, cause, job, body }
    });
    let gone = (number(), prop::sample::select(GoneCause::ALL), version(), timestamp())
        .prop_map(|(number, cause, version, at)| GoneRecord { number, cause, version, at });
    prop_oneof![
        8 => job.prop_map(Record::Job).boxed(),
        1 => gone.prop_map(Record::Gone).boxed(),
        1 => (topic_id(), done()).prop_map(|(topic, done)| Record::Done(DoneRecord { topic, done })).boxed(),
        2 => topic().prop_map(Record::Topic).boxed(),
        1 => topic_id().prop_map(Record::TopicGone),
        1 => stale().prop_map(Record::Tombstone),
    ]
}
