//! What becomes of jobs: delete, release, bury, touch; and kick.

use beanstalk_protocol::Reply;
use dwell_core::{
    CancelItem, Delay, JobRef, LeaseLost, Priority, Redrive, RedriveTopic, Redriven, Settle, StoreError, TopicError,
    Verdict, limits,
};

use super::session::{Held, Session};
use super::{Edge, failure, names, put, run};

/// What is asked to become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Delete(u64),
    Release { id: u64, priority: u32, delay: u32 },
    Bury { id: u64, priority: u32 },
    Touch(u64),
}

impl Ask {
    fn id(self) -> u64 {
        match self {
            Self::Delete(id) | Self::Touch(id) | Self::Release { id, .. } | Self::Bury { id, .. } => id,
        }
    }

    /// What the holder of the job says with it; `None` for a delay longer than a job may have.
    fn verdict(self, held: &Held) -> Option<Verdict> {
        Some(match self {
            Self::Delete(_) => Verdict::Ack,
            Self::Touch(_) => Verdict::Extend { ttr: None },
            Self::Bury { priority, .. } => Verdict::Bury { reason: None, priority: Some(Priority(priority)) },
            Self::Release { priority, delay, .. } => match held.release(put::delay(delay)?) {
                Verdict::Release { delay, .. } => Verdict::Release { delay, priority: Some(Priority(priority)) },
                other => other,
            },
        })
    }

    fn done(self) -> Reply<'static> {
        match self {
            Self::Delete(_) => Reply::Deleted,
            Self::Release { .. } => Reply::Released,
            Self::Bury { .. } => Reply::Buried,
            Self::Touch(_) => Reply::Touched,
        }
    }
}

/// Settles what the connection holds in one go, then deletes what it does not hold in another; answers each.
pub(super) async fn run(
    edge: &Edge,
    session: &mut Session,
    asks: &[Ask],
    between: &mut run::Between,
    out: &mut Vec<u8>,
) {
    let mut replies: Vec<Option<Reply<'static>>> = vec![None; asks.len()];
    let mut settles = Vec::new();
    for (place, ask) in asks.iter().enumerate() {
        let Some(held) = session.held(ask.id()) else { continue };
        match ask.verdict(&held) {
            Some(verdict) => {
                if !matches!(ask, Ask::Touch(_)) {
                    session.let_go(ask.id());
                }
                settles.push((place, Settle::new(held.token, verdict)));
            }
            None => replies[place] = Some(Reply::BadFormat),
        }
    }
    if !settles.is_empty() {
        settle(edge, session, asks, settles, &mut replies).await;
    }
    delete_others(edge, asks, &mut replies).await;
    for (place, reply) in replies.into_iter().enumerate() {
        between.write(place, out);
        reply.unwrap_or(Reply::NotFound).write(out);
    }
    between.write(usize::MAX, out);
}

async fn settle(
    edge: &Edge,
    session: &mut Session,
    asks: &[Ask],
    settles: Vec<(usize, Settle)>,
    replies: &mut [Option<Reply<'static>>],
) {
    let (places, items): (Vec<_>, Vec<_>) = settles.into_iter().unzip();
    match edge.store.settle(items).await {
        Ok(answers) => {
            let now = edge.now().await;
            for (place, answer) in places.into_iter().zip(answers) {
                match answer {
                    Ok(()) => {
                        if let Ask::Touch(id) = asks[place] {
                            session.touched(id, now);
                        }
                        replies[place] = Some(asks[place].done());
                    }
                    // It is someone else's by now, or nobody's: then a delete still means it.
                    Err(LeaseLost) => drop(session.let_go(asks[place].id())),
                }
            }
        }
        Err(error) => {
            for place in places {
                replies[place] = Some(failure(&error));
            }
        }
    }
}

/// Deletes the jobs that the connection does not hold, unless someone else does.
async fn delete_others(edge: &Edge, asks: &[Ask], replies: &mut [Option<Reply<'static>>]) {
    let wanted = |place: &usize| replies[*place].is_none() && matches!(asks[*place], Ask::Delete(_));
    let places: Vec<usize> = (0..asks.len()).filter(wanted).collect();
    let found = places.into_iter().filter_map(|place| Some((place, names::number(asks[place].id())?)));
    let (places, items): (Vec<_>, Vec<_>) =
        found.map(|(place, number)| (place, CancelItem::new(JobRef::Number(number)))).unzip();
    if items.is_empty() {
        return;
    }
    match edge.store.cancel(items).await {
        Ok(answers) => {
            for (place, answer) in places.into_iter().zip(answers) {
                replies[place] = Some(if answer.is_ok() { Reply::Deleted } else { Reply::NotFound });
            }
        }
        Err(error) => {
            for place in places {
                replies[place] = Some(failure(&error));
            }
        }
    }
}

/// Gives back all that a connection holds.
pub(super) async fn give_up(edge: &Edge, session: &mut Session) {
    let items = session.give_up();
    for batch in items.chunks(limits::MAX_BATCH) {
        if let Err(error) = edge.store.settle(batch.to_vec()).await {
            tracing::warn!(%error, "jobs of a closed connection come back only when their time is over");
        }
    }
}

/// Makes up to `bound` buried jobs of the used tube ready, or delayed ones if none is buried.
pub(super) async fn kick(edge: &Edge, session: &Session, bound: u32) -> Reply<'static> {
    let redrive = |max, else_delayed| RedriveTopic {
        max,
        delay: Delay::ZERO,
        else_delayed,
        ..RedriveTopic::all(session.used().clone())
    };
    if bound <= limits::MAX_REDRIVE {
        return kicked(edge.store.redrive(Redrive::Topic(redrive(bound, true))).await);
    }
    // More than a store does in one go. If one job is buried, only buried ones are meant.
    let (mut left, mut sum, mut else_delayed) = (bound, 0, false);
    while left > 0 {
        let max = left.min(limits::MAX_REDRIVE);
        match edge.store.redrive(Redrive::Topic(redrive(max, else_delayed))).await {
            Ok(Ok(Redriven { redriven: 0, .. })) if sum == 0 && !else_delayed => else_delayed = true,
            Ok(Ok(Redriven { redriven: 0, .. }) | Err(_)) => break,
            Ok(Ok(Redriven { redriven, .. })) => {
                sum += redriven;
                left -= u32::try_from(redriven).unwrap_or(left).min(left);
            }
            Err(error) => return failure(&error),
        }
    }
    Reply::KickedCount(sum)
}

fn kicked(answer: Result<Result<Redriven, TopicError>, StoreError>) -> Reply<'static> {
    match answer {
        Ok(Ok(redriven)) => Reply::KickedCount(redriven.redriven),
        // A tube without a job in it.
        Ok(Err(_)) => Reply::KickedCount(0),
        Err(error) => failure(&error),
    }
}

/// Makes a buried or delayed job ready.
pub(super) async fn kick_job(edge: &Edge, id: u64) -> Reply<'static> {
    let Some(number) = names::number(id) else { return Reply::NotFound };
    match edge.store.redrive(Redrive::Number(number)).await {
        Ok(Ok(Redriven { redriven: 1.., .. })) => Reply::Kicked,
        Ok(_) => Reply::NotFound,
        Err(error) => failure(&error),
    }
}
