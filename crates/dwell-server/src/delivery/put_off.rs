//! Jobs that were put off since their targets had no room, in a store whose time may stand still.
//!
//! A job is put off by the store's time: it waits there, is nobody's, and comes back by itself. The time of a test's
//! store stands still until the test moves it, which has nothing to do with the room that a target has. So there such
//! jobs are brought back by the machine's time, unless the store's has done it before. Where time stands still they come
//! back to their old places, and not behind what has come since; so only once their target has room, or nobody would
//! get past them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dwell_core::{
    Change, ChangeItem, Job, JobRef, Lookup, Number, Phase, StoreError, Timestamp, Version, When, limits,
};
use tokio::time::{Instant, sleep, sleep_until};

use super::board::SOON;
use super::dispatcher::{Back, Dispatcher};
use super::outcome::millis;

/// Jobs that are put off at once; with more of them, nothing goes out before the first is back.
const MOST: usize = 1 << 16;
/// How long to rest before a store that has too much to do is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// Who comes back when, which version of it was put off, and for which target.
#[derive(Debug, Default)]
pub(super) struct PutOff(Mutex<List>);

type List = BTreeMap<(Instant, Number), (Version, Arc<str>)>;

impl PutOff {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<Instant> {
        self.lock().first_key_value().map(|((at, _), _)| *at)
    }

    /// Those whose time has come, as many as go into one call.
    fn take_due(&self, now: Instant) -> List {
        let mut list = self.lock();
        let due = list.keys().take_while(|(at, _)| *at <= now).take(limits::MAX_BATCH);
        let due: Vec<(Instant, Number)> = due.copied().collect();
        due.into_iter().filter_map(|key| list.remove_entry(&key)).collect()
    }
}

impl Dispatcher {
    /// Notes those that have just been put back for later.
    pub(super) async fn note_put_off(&self, back: &[Back], now: Instant) -> Result<(), StoreError> {
        let Some(put_off) = &self.put_off else { return Ok(()) };
        let later: Vec<(&Back, Duration)> = back.iter().filter_map(|back| Some((back, back.wait?))).collect();
        if later.is_empty() {
            return Ok(());
        }
        let (jobs, store_now) = loop {
            match self.look(&later).await {
                Err(StoreError::Overloaded) => sleep(AGAIN).await,
                looked => break looked?,
            }
        };
        for ((back, wait), job) in later.into_iter().zip(jobs) {
            let Some(job) = job.filter(|job| matches!(job.phase, Phase::Waiting)) else { continue };
            // If somebody else has moved it meanwhile, that is when it comes.
            let ours = back.leased_at.plus(millis(wait))..=store_now.plus(millis(wait));
            if ours.contains(&job.due_at) {
                put_off.lock().insert((now + wait, job.number), (job.version, Arc::clone(&back.origin)));
            }
        }
        self.changed.notify_one();
        Ok(())
    }

    /// What they look like now, and the store's time after that.
    async fn look(&self, back: &[(&Back, Duration)]) -> Result<(Vec<Option<Job>>, Timestamp), StoreError> {
        let lookups = back.iter().map(|(back, _)| Lookup::Job(JobRef::Number(back.token.number)));
        let found = self.store.get(lookups.collect()).await?;
        let jobs = found.into_iter().map(|found| Some(found?.live()?.job)).collect();
        Ok((jobs, self.store.status().await?.now))
    }

    /// Brings back those whose time has come, and says when that of the next one will have.
    pub(super) async fn bring_back(&self) -> Result<Option<Instant>, StoreError> {
        let Some(put_off) = &self.put_off else { return Ok(None) };
        if put_off.lock().len() >= MOST
            && let Some(first) = put_off.first()
        {
            sleep_until(first).await;
        }
        loop {
            let now = Instant::now();
            let due = put_off.take_due(now);
            if due.is_empty() {
                return Ok(put_off.first());
            }
            let (back, still): (List, List) = {
                let board = self.board();
                due.into_iter().partition(|(_, (_, origin))| board.has_room(origin, now))
            };
            put_off.lock().extend(still.into_iter().map(|((_, number), of)| ((now + SOON, number), of)));
            let change = || Change { when: Some(When::NOW), ..Change::default() };
            let item = |((_, number), (version, _)): (&(Instant, Number), &(Version, Arc<str>))| ChangeItem {
                if_match: Some(*version),
                ..ChangeItem::new(JobRef::Number(*number), change())
            };
            // One that is refused has been leased, moved or cancelled since, and needs nobody to bring it back.
            if let Err(error) = self.store.change(back.iter().map(item).collect()).await {
                put_off.lock().extend(back);
                return Err(error);
            }
        }
    }
}
