//! Looking at jobs: the peeks.

use beanstalk_protocol::Reply;
use dwell_core::{Found, JobRef, Lookup, State};

use super::session::Session;
use super::{Edge, failure, names};

/// Shows a job by its number.
pub(super) async fn peek(edge: &Edge, id: u64, out: &mut Vec<u8>) {
    match names::number(id) {
        Some(number) => look(edge, Lookup::Job(JobRef::Number(number)), out).await,
        None => Reply::NotFound.write(out),
    }
}

/// Shows the job of the used tube that is next in its state.
pub(super) async fn peek_next(edge: &Edge, session: &Session, state: State, out: &mut Vec<u8>) {
    look(edge, Lookup::Next(session.used().clone(), state), out).await;
}

async fn look(edge: &Edge, lookup: Lookup, out: &mut Vec<u8>) {
    match edge.store.get(vec![lookup]).await {
        Ok(found) => match found.into_iter().next().flatten().and_then(Found::live) {
            Some(view) => Reply::Found { id: view.job.number.get(), body: view.job.body.as_bytes() }.write(out),
            None => Reply::NotFound.write(out),
        },
        Err(error) => failure(&error).write(out),
    }
}
