//! Calls that come together go together: while a call is under way, those that come for the same place wait, and go with the
//! next one. Who comes alone waits for nobody.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::inner::{CALL_BYTES, CALL_JOBS};

/// Jobs of a caller who goes with others; who has more goes alone.
pub(crate) const FEW: usize = 32;
/// How long others wait for a call that is under way.
const PATIENCE: Duration = Duration::from_millis(20);

/// One caller's part of a call.
pub(crate) struct Part<T, A> {
    pub(crate) items: Vec<T>,
    pub(crate) bytes: usize,
    pub(crate) answer: oneshot::Sender<A>,
}

/// Those who wait, by the place that their calls are for.
pub(crate) struct Gather<K, T, A>(Mutex<HashMap<K, Vec<Part<T, A>>>>);

impl<K, T, A> Default for Gather<K, T, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T, A> Gather<K, T, A> {
    /// Adds a part; whether its caller must start the calls, because none is under way.
    fn add(&self, place: &K, part: Part<T, A>) -> bool {
        let mut waiting = self.0.lock().expect("nobody panics while holding it");
        let starts = !waiting.contains_key(place);
        waiting.entry(place.clone()).or_default().push(part);
        starts
    }

    /// What goes with the next call; nothing if nobody waits, and then no call is under way any more.
    fn next(&self, place: &K) -> Vec<Part<T, A>> {
        let mut all = self.0.lock().expect("nobody panics while holding it");
        let Some(waiting) = all.get_mut(place) else { return Vec::new() };
        let (mut jobs, mut bytes) = (0, 0);
        let fits = |part: &&Part<T, A>| {
            (jobs, bytes) = (jobs + part.items.len(), bytes + part.bytes);
            jobs <= CALL_JOBS && bytes <= CALL_BYTES
        };
        // One always goes, be it as large as it may.
        let going = waiting.iter().take_while(fits).count().max(1).min(waiting.len());
        let next: Vec<_> = waiting.drain(..going).collect();
        if next.is_empty() {
            all.remove(place);
        }
        next
    }
}

/// Sends a part with others that are for the same place; its answer, or nothing if its call came to grief. `fly` makes one
/// call for all of its parts and answers them, in a task of its own: no caller who goes away takes others with it.
pub(crate) async fn together<C, K, T, A, F>(
    common: &C,
    gather: impl Fn(&C) -> &Gather<K, T, A> + Copy + Send + 'static,
    place: K,
    (items, bytes): (Vec<T>, usize),
    fly: impl Fn(C, K, Vec<Part<T, A>>) -> F + Send + 'static,
) -> Option<A>
where
    C: Clone + Send + Sync + 'static,
    K: Clone + Eq + Hash + Send + 'static,
    T: Send + 'static,
    A: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (answer, mine) = oneshot::channel();
    if gather(common).add(&place, Part { items, bytes, answer }) {
        let common = common.clone();
        tokio::spawn(async move {
            let mut calls = JoinSet::new();
            loop {
                let parts = gather(&common).next(&place);
                if parts.is_empty() {
                    break;
                }
                calls.spawn(fly(common.clone(), place.clone(), parts));
                // The next call waits for this one, but not for long.
                tokio::time::timeout(PATIENCE, async { while calls.join_next().await.is_some() {} }).await.ok();
            }
            calls.detach_all();
        });
    }
    mine.await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;

    /// An engine that answers when it is told to, each item with itself.
    struct World {
        gather: Gather<u8, u64, Vec<u64>>,
        gate: Semaphore,
        flights: Mutex<Vec<usize>>,
    }

    impl World {
        fn new() -> Arc<Self> {
            Arc::new(Self { gather: Gather::default(), gate: Semaphore::new(0), flights: Mutex::default() })
        }

        fn send(self: &Arc<Self>, items: Vec<u64>) -> JoinHandle<Option<Vec<u64>>> {
            let world = Arc::clone(self);
            tokio::spawn(async move { together(&world, |world| &world.gather, 0, (items, 0), Self::fly).await })
        }

        async fn fly(self: Arc<Self>, _place: u8, parts: Vec<Part<u64, Vec<u64>>>) {
            self.flights.lock().expect("nobody panics").push(parts.iter().map(|part| part.items.len()).sum());
            self.gate.acquire().await.expect("it is open").forget();
            assert!(!parts.iter().any(|part| part.items.contains(&u64::MAX)), "this one comes to grief");
            for part in parts {
                part.answer.send(part.items).ok();
            }
        }

        async fn until(&self, holds: impl Fn(&Self) -> bool) {
            while !holds(self) {
                tokio::task::yield_now().await;
            }
        }

        fn flights(&self) -> Vec<usize> {
            self.flights.lock().expect("nobody panics").clone()
        }

        fn waiting(&self) -> usize {
            self.gather.0.lock().expect("nobody panics").get(&0).map_or(0, Vec::len)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_come_meanwhile_go_together_and_get_answers_of_their_own() {
        let world = World::new();
        let first = world.send(vec![1]);
        world.until(|world| world.flights().len() == 1).await;
        let others: Vec<_> = (0..60).map(|k| world.send(vec![k * 2, k * 2 + 1])).collect();
        world.until(|world| world.waiting() == 60).await;
        // One that goes away takes nobody with it.
        others[20].abort();
        world.gate.add_permits(3);
        assert_eq!(first.await.expect("it ends"), Some(vec![1]));
        for (k, other) in (0..60).zip(others) {
            if k != 20 {
                assert_eq!(other.await.expect("it ends"), Some(vec![k * 2, k * 2 + 1]));
            }
        }
        assert_eq!(world.flights(), [1, 100, 20], "no call has more than it may");
        world.until(|world| world.gather.0.lock().expect("nobody panics").is_empty()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_a_call_that_is_slow_or_comes_to_grief() {
        let world = World::new();
        let slow = world.send(vec![1]);
        world.until(|world| world.flights().len() == 1).await;
        let second = world.send(vec![2]);
        let begun = tokio::time::Instant::now();
        // Time goes on when all tasks rest: the second call is made though the first has no answer.
        while world.flights().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(begun.elapsed() <= PATIENCE + Duration::from_millis(2), "{:?}", begun.elapsed());
        world.gate.add_permits(2);
        assert_eq!((slow.await.expect("it ends"), second.await.expect("it ends")), (Some(vec![1]), Some(vec![2])));

        world.gate.add_permits(2);
        assert_eq!(world.send(vec![u64::MAX]).await.expect("it ends"), None);
        assert_eq!(world.send(vec![3]).await.expect("it ends"), Some(vec![3]), "the next call is made all the same");
    }
}
