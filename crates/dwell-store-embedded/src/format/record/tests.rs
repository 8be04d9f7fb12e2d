use std::num::NonZeroU32;
use std::sync::Arc;

use dwell_core::{
    Body, Burial, Counters, Delay, Delivery, DeliveryAnswer, ErrorText, Headers, Ladder, Lease, LeaseToken, NewJob,
    Phase, Priority, Rate, Reason, Secret, Target, Ttl, Ttr, When,
};
use proptest::prelude::*;

use super::strategies::{record, topic_name};
use super::*;
use crate::format::fuzzing::encode;

pub(super) fn encoded(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, record);
    out
}

pub(super) fn decode_one(bytes: &[u8]) -> Result<Record, Damage> {
    decode(&mut Reader::new(bytes), &|_| Some(topic_name()))
}

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// The job that a put of today makes.
pub(super) fn put_job(id: &str, body: &[u8]) -> Job {
    let new = NewJob {
        body: Body::Bytes(Arc::from(body)),
        ..NewJob::new(topic_name(), JobId::new(id).unwrap(), When::In(Delay::from_millis(30 * limits::DAY).unwrap()))
    };
    let (number, version) = (Number::new(100_000_000).unwrap(), Version::new(300_000_000).unwrap());
    Job::create(new, number, version, at(1_900_000_000_123), 0).unwrap()
}

/// A job with every field set.
pub(super) fn full_job() -> Job {
    let mut job = put_job("order-42", b"");
    let token =
        LeaseToken { number: job.number, version: Version::new(299_999_999).unwrap(), secret: 0x0123_4567_89ab_cdef };
    let consumer = Some(dwell_core::Consumer::new("me").unwrap());
    job.phase = Phase::Leased(Lease {
        token,
        expires_at: job.due_at.plus(60_000),
        ttr: Ttr::from_millis(60_000).unwrap(),
        consumer,
    });
    job.ttl_from = job.created_at.plus(7);
    job.priority = Priority(7);
    job.attempt = 2;
    job.options.ttr = Some(Ttr::from_millis(5_000).unwrap());
    job.options.retry = Some(Ladder::new(&[Delay::from_millis(15_000).unwrap()]).unwrap().into_policy());
    job.options.ttl = Some(Ttl::from_millis(1).unwrap());
    job.options.deliver_to = Some(Target::new("http://a/b", "http://a:80").unwrap());
    job.counters = Counters { leases: 1, timeouts: 2, releases: 3, buries: 4, kicks: 5 };
    job.last_error = Some(ErrorText::new("no"));
    let answer = DeliveryAnswer::new(b"oh");
    job.deliveries = vec![Delivery { at: job.due_at, took: 12, status: Some(500), answer }];
    job.headers = Headers::new([("k".to_owned(), "v".to_owned())]).unwrap();
    job.body = Body::Json(Arc::from(*b"{}"));
    job
}

pub(super) fn full_topic() -> TopicRecord {
    let policy = TopicPolicy {
        ttr: Some(Ttr::from_millis(5_000).unwrap()),
        retry: Some(dwell_core::RetryPolicy::default()),
        ttl: Some(Ttl::from_millis(9).unwrap()),
        deliver_to: Some(Target::new("http://a/b", "http://a:80").unwrap()),
        deliver_secrets: vec![Secret::new(b"hush").unwrap()],
        max_in_flight: NonZeroU32::new(3),
        max_rate: Rate::per_second(2.5),
        keep_buried: Some(Delay::from_millis(1_000).unwrap()),
        keep_done: Some(Delay::from_millis(2_000).unwrap()),
    };
    let totals = Totals {
        put: 1,
        leased: 2,
        acked: 3,
        nacked: 4,
        timed_out: 5,
        released: 6,
        buried: 7,
        redriven: 8,
        cancelled: 9,
        purged: 10,
    };
    TopicRecord {
        id: TopicId(300),
        name: TopicName::new("mail").unwrap(),
        policy,
        pause: Pause::Until(at(77)),
        totals,
        forgotten: 99,
    }
}

#[test]
fn a_put_costs_little_beside_id_and_body() {
    let cost = |topic: u32, job: &Job| {
        let mut out = Vec::new();
        encode_job(&mut out, TopicId(topic), Cause::Put, job, BodyPart::Here);
        out.len() - job.id.as_str().len() - job.body.len()
    };
    let mut job = put_job("order-42-abcdefg", &[7; 256]);
    assert_eq!(cost(7, &job), 28);
    job.number = Number::new(limits::NUMBER_END - 1).unwrap();
    job.version = Version::new(limits::NUMBER_END - 1).unwrap();
    job.due_at = job.created_at.plus(limits::MAX_DELAY);
    job.ttl_from = job.due_at;
    assert_eq!(cost(100_000, &job), 38, "the largest of stores");
}

#[test]
fn a_kept_body_is_not_written() {
    let job = put_job("a", &[7; 256]);
    let mut out = Vec::new();
    encode_job(&mut out, TopicId(7), Cause::Lease, &job, BodyPart::Kept);
    assert!(out.len() < 40);
    let Ok(Record::Job(read)) = decode_one(&out) else { panic!("it reads back") };
    assert_eq!(read.body, BodyPart::Kept);
    assert_eq!(read.job, Job { body: Body::default(), ..job });
}

#[test]
fn jobs_of_unknown_topics_are_named() {
    let topics = |id: TopicId| (id == TopicId(1)).then(topic_name);
    for known in [true, false] {
        let id = TopicId(if known { 1 } else { 2 });
        let mut out = Vec::new();
        encode_job(&mut out, id, Cause::Put, &put_job("a", b""), BodyPart::Here);
        let why = decode(&mut Reader::new(&out), &topics).map(drop).map_err(|damage| damage.why);
        assert_eq!(why, if known { Ok(()) } else { Err(Why::UnknownTopic(2)) });
    }
}

/// `record` with one byte set.
fn with(record: &Record, at: usize, byte: u8) -> Result<Record, Damage> {
    let mut bytes = encoded(record);
    bytes[at] = byte;
    decode_one(&bytes)
}

#[test]
fn values_that_cannot_be_are_damage() {
    let invalid = |record: Result<Record, Damage>| match record {
        Err(Damage { why: Why::Invalid(what), .. }) => what,
        other => panic!("{other:?}"),
    };
    let job =
        Record::Job(JobRecord { topic: TopicId(1), cause: Cause::Put, job: put_job("a", b"x"), body: BodyPart::Here });
    assert_eq!(invalid(with(&job, 0, 0)), "type of record");
    assert_eq!(invalid(with(&job, 0, 7)), "type of record");
    assert_eq!(invalid(with(&job, 1, 12)), "cause");
    assert_eq!(invalid(with(&job, 3, 0x80)), "flag");
    assert_eq!(invalid(with(&job, 2, 0b1101)), "flag");
    assert_eq!(invalid(with(&job, 2, 0b10)), "flag");
    let gone = |number, version, at: u64| {
        let mut out = vec![GONE, 0];
        for value in [number, version, at] {
            put_varint(&mut out, value);
        }
        decode_one(&out)
    };
    assert!(gone(limits::NUMBER_END - 1, limits::NUMBER_END - 1, limits::MAX_TIMESTAMP).is_ok());
    assert_eq!(invalid(gone(limits::NUMBER_END, 0, 0)), "number");
    assert_eq!(invalid(gone(0, limits::NUMBER_END, 0)), "version");
    assert_eq!(invalid(gone(0, 0, limits::MAX_TIMESTAMP + 1)), "time");
    let topic = Record::Topic(full_topic());
    assert_eq!(invalid(with(&topic, 2, 0x04)), "flag");
    assert_eq!(invalid(with(&topic, 2, 0x03)), "flag");
    assert_eq!(invalid(with(&topic, 6, b' ')), "topic name");
}

#[test]
fn instants_before_and_beyond_time_are_damage() {
    for (base, distance, good) in [
        (5, -5, true),
        (5, -6, false),
        (0, i64::MIN, false),
        (limits::MAX_TIMESTAMP, 0, true),
        (limits::MAX_TIMESTAMP, 1, false),
    ] {
        let mut out = Vec::new();
        put_signed(&mut out, distance);
        assert_eq!(distant(&mut Reader::new(&out), at(base)).is_ok(), good, "{base} {distance}");
    }
}

#[test]
fn headers_out_of_order_are_damage() {
    let mut job = put_job("a", b"");
    job.headers = Headers::new([("k1".to_owned(), "v".to_owned()), ("k2".to_owned(), "v".to_owned())]).unwrap();
    let record = Record::Job(JobRecord { topic: TopicId(1), cause: Cause::Put, job, body: BodyPart::Here });
    let mut bytes = encoded(&record);
    let second = bytes.windows(2).position(|pair| pair == b"k2").unwrap();
    bytes[second + 1] = b'1';
    assert_eq!(decode_one(&bytes).map_err(|damage| damage.why), Err(Why::Invalid("order of headers")));
}

#[test]
fn a_buried_job_reads_back() {
    let mut job = put_job("a", b"x");
    job.phase = Phase::Buried(Burial { at: at(3), reason: Reason::new(Reason::EXPIRED).unwrap() });
    let record = Record::Job(JobRecord { topic: TopicId(1), cause: Cause::Bury, job, body: BodyPart::Here });
    assert_eq!(decode_one(&encoded(&record)), Ok(record));
}

#[test]
fn a_job_with_more_than_the_edges_allow_is_still_read() {
    let mut job = full_job();
    job.deliveries = vec![job.deliveries[0].clone(); limits::MAX_DELIVERIES + 1];
    let job = Record::Job(JobRecord { topic: TopicId(1), cause: Cause::Nack, job, body: BodyPart::Here });
    assert_eq!(decode_one(&encoded(&job)), Ok(job));
    let mut topic = full_topic();
    topic.policy.deliver_secrets = vec![Secret::new(b"k").unwrap(); limits::MAX_SECRETS + 1];
    let topic = Record::Topic(topic);
    assert_eq!(decode_one(&encoded(&topic)), Ok(topic));
}

proptest! {
    #[test]
    fn records_read_back_one_after_the_other(records in prop::collection::vec(record(), 1..4)) {
        let bytes = records.iter().map(encoded).collect::<Vec<_>>().concat();
        let mut reader = Reader::new(&bytes);
        for record in records {
            prop_assert_eq!(decode(&mut reader, &|_| Some(topic_name())), Ok(record));
        }
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn no_cut_record_is_read(record in record(), at: prop::sample::Index) {
        let bytes = encoded(&record);
        prop_assert!(decode_one(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn flipped_bits_make_no_panic_and_nothing_that_cannot_be_written(
        record in record(),
        at: prop::sample::Index,
        bit in 0..8,
    ) {
        let mut bytes = encoded(&record);
        let at = at.index(bytes.len().min(600));
        bytes[at] ^= 1_u8 << bit;
        if let Ok(read) = decode_one(&bytes) {
            prop_assert_eq!(decode_one(&encoded(&read)), Ok(read));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(kind in 0..8_u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [&[kind][..], &bytes].concat();
        if let Ok(read) = decode_one(&bytes) {
            prop_assert_eq!(decode_one(&encoded(&read)), Ok(read));
        }
    }

    #[test]
    fn a_look_sees_what_is_there(record in record()) {
        let bytes = encoded(&record);
        let mut reader = Reader::new(&bytes);
        let seen = see(&mut reader, &|_| Some(topic_name()));
        prop_assert!(reader.is_empty());
        let Record::Job(read) = record else {
            prop_assert_eq!(seen, Ok(Seen::Other(Box::new(record))));
            return Ok(());
        };
        let id = read.job.id.as_str().as_bytes();
        let (meta, version) = (JobMeta::of(&read.job), read.job.version);
        let JobRecord { topic, cause, body, .. } = read;
        prop_assert_eq!(seen, Ok(Seen::Job(RecordHeader { topic, cause, id, body, version, meta })));
        prop_assert_eq!(id_of(&bytes), id);
        let mut again = vec![1, 2];
        encode_job_again(&mut again, &bytes);
        let relogged = Record::Job(JobRecord { cause: Cause::Relog, ..read.clone() });
        prop_assert_eq!(&again[2..], &encoded(&relogged)[..]);
        prop_assert_eq!(decode_seen(&bytes, &topic_name()), read.job);
    }

    /// What a start has looked at and kept is read later, when it is too late to complain.
    #[test]
    fn a_look_accepts_what_can_be_read_and_nothing_else(
        record in record(),
        at: prop::sample::Index,
        bit in 0..8,
        cut: bool,
    ) {
        let mut bytes = encoded(&record);
        let at = at.index(bytes.len().min(600));
        bytes[at] ^= 1_u8 << bit;
        if cut {
            bytes.truncate(at);
        }
        let (mut one, mut other) = (Reader::new(&bytes), Reader::new(&bytes));
        let seen = see(&mut one, &|_| Some(topic_name()));
        let read = decode(&mut other, &|_| Some(topic_name()));
        prop_assert_eq!(seen.is_ok(), read.is_ok());
        if let (Ok(Seen::Job(seen)), Ok(Record::Job(read))) = (seen, read) {
            prop_assert_eq!(one.position(), other.position());
            prop_assert_eq!((seen.topic, seen.cause, seen.body), (read.topic, read.cause, read.body));
            prop_assert_eq!((seen.id, seen.meta), (read.job.id.as_str().as_bytes(), JobMeta::of(&read.job)));
        }
    }

    #[test]
    fn a_look_at_any_bytes_agrees_with_reading_them(kind in 0..3_u8, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes = [&[kind][..], &bytes].concat();
        let seen = see(&mut Reader::new(&bytes), &|_| Some(topic_name()));
        prop_assert_eq!(seen.is_ok(), decode_one(&bytes).is_ok());
    }
}
