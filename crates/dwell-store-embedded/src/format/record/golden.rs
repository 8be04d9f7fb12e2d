//! The bytes of one record of each type. A change here is a change of the format: see `manifest.rs`.

use super::tests::{at, decode_one, encoded, full_job, full_topic, put_job};
use super::*;
use crate::format::hex;

fn is_golden(record: &Record, golden: &str) {
    assert_eq!(hex(&encoded(record)), golden);
    assert_eq!(decode_one(&encoded(record)).as_ref(), Ok(record));
}

#[test]
fn a_put() {
    let job = put_job("order-42", b"hello");
    is_golden(
        &Record::Job(JobRecord { topic: TopicId(7), cause: Cause::Put, job, body: BodyPart::Here }),
        "010001000780c2d72f80c6868f01fbf0cc86a63780a0f6a713086f726465722d34320568656c6c6f",
    );
}

/// Its ttl counts from its creation, as usual, and so is not written.
#[test]
fn a_put_that_is_due_already() {
    let mut job = put_job("order-42", b"hello");
    job.due_at = at(1_899_999_999_123);
    job.ttl_from = job.created_at;
    is_golden(
        &Record::Job(JobRecord { topic: TopicId(7), cause: Cause::Put, job, body: BodyPart::Here }),
        "010001000780c2d72f80c6868f01fbf0cc86a637cf0f086f726465722d34320568656c6c6f",
    );
}

#[test]
fn a_job_with_everything() {
    let job = full_job();
    is_golden(
        &Record::Job(JobRecord { topic: TopicId(7), cause: Cause::Lease, job, body: BodyPart::Here }),
        "0102f77f0780c2d72f80c6868f01fbf0cc86a63780a0f6a713086f726465722d343207020e0001efcdab8967452301c0\
         c9fda713e0d403026d6588270200019875010a687474703a2f2f612f620b687474703a2f2f613a38300102030405026e\
         6f0180a0f6a7130cf503026f6801016b0176027b7d",
    );
}

#[test]
fn a_job_that_is_gone() {
    let (number, version) = (Number::new(300).unwrap(), Version::new(400).unwrap());
    is_golden(
        &Record::Gone(GoneRecord { number, cause: GoneCause::Replaced, version, at: at(1_900_000_000_123) }),
        "0203ac029003fbf0cc86a637",
    );
}

#[test]
fn a_job_that_is_done() {
    let job = full_job();
    let done = DoneJob::new(&job, Version::new(300_000_001).unwrap(), job.due_at.plus(50));
    is_golden(
        &Record::Done(DoneRecord { topic: TopicId(7), done }),
        "030780c2d72f81c6868f01ad81c8daaf37e3a0f6a7136302086f726465722d3432",
    );
}

#[test]
fn a_topic() {
    is_golden(
        &Record::Topic(full_topic()),
        "04ff02ac02046d61696c88271401e80780dddb0100000000000000409a9999999999b93f090a687474703a2f2f612f62\
         0b687474703a2f2f613a3830010468757368030000000000000440e807d00f4d0102030405060708090a63",
    );
}

#[test]
fn a_topic_that_is_gone() {
    is_golden(&Record::TopicGone(TopicId(300)), "05ac02");
}

#[test]
fn a_stale_copy() {
    let slice = Slice { topic: TopicId(300), line: Line::from_index(1_023).unwrap(), lane: Lane::BURIED };
    let key = Key::new(slice, (Timestamp::from_millis(1_790_000_000_000).unwrap(), Number::new(70_000).unwrap()));
    is_golden(
        &Record::Tombstone(Tombstone { key, version: Version::new(90_000).unwrap(), since: 5 }),
        "06ac02ff070880d8c1a28c34f0a20490bf0505",
    );
}

/// Codes are places in these lists; a cause that moves would be read as another.
#[test]
fn causes_keep_their_codes() {
    let causes = "[Put, Replace, Lease, Nack, Timeout, Release, Bury, Extend, Change, Redrive, Expire, Relog]";
    assert_eq!(format!("{:?}", Cause::ALL), causes);
    assert_eq!(format!("{:?}", GoneCause::ALL), "[Ack, Cancel, Purge, Replaced, KeepOver, TopicGone]");
    for (code, cause) in Cause::ALL.iter().enumerate() {
        assert_eq!(*cause as usize, code);
    }
    for (code, cause) in GoneCause::ALL.iter().enumerate() {
        assert_eq!(*cause as usize, code);
    }
}
