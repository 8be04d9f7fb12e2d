//! Answers that wait for the sync of everything they have seen.

use std::collections::VecDeque;

use dwell_core::{LeaseToken, LeasedJob, StoreError};
use tokio::sync::oneshot;

use crate::sim_bugs::{self, Bug};

/// Where the answer to a call goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Answers in the order they were given; each leaves when its sequence is durable.
#[derive(Default)]
pub(super) struct Answers {
    held: VecDeque<(u64, Held)>,
}

enum Held {
    /// Any answer, with what sends it: the value, or an error instead.
    Plain(Box<dyn FnOnce(Option<StoreError>) + Send>),
    /// Leased jobs: if nobody is there to receive them, they are given back.
    Lease(Reply<Vec<LeasedJob>>, Vec<LeasedJob>),
}

impl Answers {
    /// Holds an answer that has seen everything up to `sequence`.
    pub(super) fn hold<T: Send + 'static>(&mut self, sequence: u64, reply: Reply<T>, value: T) {
        let send = move |error: Option<StoreError>| {
            // A caller that has gone away does not want to know.
            drop(reply.send(error.map_or(Ok(value), Err)));
        };
        self.held.push_back((sequence, Held::Plain(Box::new(send))));
    }

    /// Holds leased jobs.
    pub(super) fn hold_lease(&mut self, sequence: u64, reply: Reply<Vec<LeasedJob>>, jobs: Vec<LeasedJob>) {
        self.held.push_back((sequence, Held::Lease(reply, jobs)));
    }

    /// Sends what has seen nothing later than `durable`; the leases that nobody received.
    pub(super) fn release(&mut self, durable: u64) -> Vec<LeaseToken> {
        let durable = if sim_bugs::is(Bug::AnswersBeforeSync) { u64::MAX } else { durable };
        let mut lost = Vec::new();
        while let Some((sequence, _)) = self.held.front()
            && *sequence <= durable
        {
            match self.held.pop_front() {
                Some((_, Held::Plain(send))) => send(None),
                Some((_, Held::Lease(reply, jobs))) => {
                    if let Err(Ok(jobs)) = reply.send(Ok(jobs)) {
                        lost.extend(jobs.iter().filter_map(|job| job.token));
                    }
                }
                None => break,
            }
        }
        lost
    }

    /// Answers everything that is held with an error.
    pub(super) fn refuse(&mut self, error: &StoreError) {
        for (_, held) in self.held.drain(..) {
            match held {
                Held::Plain(send) => send(Some(error.clone())),
                Held::Lease(reply, _) => drop(reply.send(Err(error.clone()))),
            }
        }
    }
}
