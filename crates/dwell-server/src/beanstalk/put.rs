//! Putting jobs.

use std::sync::Arc;

use beanstalk_protocol::{Put, Reply};
use dwell_core::limits::SECOND;
use dwell_core::{
    Body, Delay, ErrorKind, Headers, IfExists, NewId, NewJob, Options, Priority, PutError, PutOutcome, Ttr, When,
};

use super::session::Session;
use super::{Edge, failure, run};

/// The job that a put is for; `None` if it is delayed for longer than a job may be.
pub(super) fn job(edge: &Edge, session: &Session, put: Put, body: &[u8]) -> Option<NewJob> {
    Some(NewJob {
        topic: session.used().clone(),
        id: NewId::FromNumber,
        when: When::In(delay(put.delay)?),
        jitter: Delay::ZERO,
        priority: Priority(put.priority),
        options: Options { ttr: Some(ttr(put.ttr)), retry: Some(edge.retry.clone()), ttl: None, deliver_to: None },
        headers: Headers::default(),
        body: Body::Bytes(Arc::from(body)),
        if_exists: IfExists::Reject,
        if_match: None,
        force: false,
    })
}

/// Puts jobs in one go and answers each.
pub(super) async fn run(edge: &Edge, jobs: Vec<NewJob>, between: &mut run::Between, out: &mut Vec<u8>) {
    let count = jobs.len();
    let answers = if jobs.is_empty() { Ok(Vec::new()) } else { edge.store.put(jobs).await };
    match answers {
        Ok(answers) => {
            for (place, answer) in answers.iter().enumerate() {
                between.write(place, out);
                reply(answer).write(out);
            }
        }
        Err(error) => {
            for place in 0..count {
                between.write(place, out);
                failure(&error).write(out);
            }
        }
    }
    between.write(usize::MAX, out);
}

fn reply(answer: &Result<PutOutcome, PutError>) -> Reply<'static> {
    match answer {
        Ok(PutOutcome::Created(receipt) | PutOutcome::Replaced(receipt)) => Reply::Inserted(receipt.number.get()),
        // No other job has the id of a new number.
        Ok(PutOutcome::Kept(_)) => Reply::InternalError,
        Err(error) => match error.kind() {
            ErrorKind::StorageFull | ErrorKind::LimitReached => Reply::OutOfMemory,
            ErrorKind::TooLarge => Reply::JobTooBig,
            ErrorKind::InvalidRequest => Reply::BadFormat,
            _ => Reply::InternalError,
        },
    }
}

/// A delay of so many seconds; `None` if that is longer than a delay may be. Cutting it would hand the job out early.
pub(super) fn delay(seconds: u32) -> Option<Delay> {
    Delay::from_millis(u64::from(seconds) * SECOND).ok()
}

/// A time-to-run of so many seconds: at least one, as with beanstalkd, and at most a day.
fn ttr(seconds: u32) -> Ttr {
    let millis = u64::from(seconds) * SECOND;
    Ttr::from_millis(millis.clamp(Ttr::MIN.as_millis(), Ttr::MAX.as_millis())).expect("it was brought into range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_and_none_is_cut_short() {
        assert_eq!(delay(1).map(Delay::as_millis), Some(1_000));
        assert_eq!(delay(3_650 * 86_400), Some(Delay::MAX));
        assert_eq!(delay(3_650 * 86_400 + 1), None);
        assert_eq!((ttr(0), ttr(1), ttr(u32::MAX)), (Ttr::MIN, Ttr::MIN, Ttr::MAX));
    }
}
