//! Numbers of new jobs. Puts that come while a row of numbers is being fetched share the next row: a put never gets a number
//! that was fetched before it began, so numbers are in the order of puts, also over several servers.

use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::link::Trouble;

type Answer = Result<u64, Trouble>;

/// Those who want numbers, and whose turn it is to fetch them for all.
#[derive(Default)]
pub(crate) struct Numbers {
    waiting: Mutex<Vec<(usize, oneshot::Sender<Answer>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Numbers {
    /// Takes a row of so many numbers; the one before its first. `fetch` takes a row from the engine.
    pub(crate) async fn take<F: Future<Output = Answer>>(&self, wanted: usize, fetch: impl Fn(usize) -> F) -> Answer {
        loop {
            let (answer, mut mine) = oneshot::channel();
            self.waiting.lock().expect("nobody panics while holding it").push((wanted, answer));
            let answered = tokio::select! {
                biased;
                answered = &mut mine => answered.ok(),
                _turn = self.turn.lock() => {
                    // Whoever had the turn before may have answered, or have gone away with us on its list.
                    match mine.try_recv() {
                        Ok(answered) => Some(answered),
                        Err(oneshot::error::TryRecvError::Closed) => None,
                        Err(oneshot::error::TryRecvError::Empty) => {
                            self.fetch_for_all(&fetch).await;
                            mine.try_recv().ok()
                        }
                    }
                }
            };
            if let Some(answer) = answered {
                return answer;
            }
        }
    }

    async fn fetch_for_all<F: Future<Output = Answer>>(&self, fetch: &impl Fn(usize) -> F) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("nobody panics while holding it"));
        let mut row = fetch(waiting.iter().map(|(wanted, _)| wanted).sum()).await;
        for (wanted, answer) in waiting {
            // Who has gone leaves a gap, which is no harm.
            answer.send(row.clone()).ok();
            if let Ok(first) = &mut row {
                *first += wanted as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// An engine that answers when it is told to.
    #[derive(Default)]
    struct Engine {
        last: AtomicU64,
        calls: AtomicUsize,
    }

    impl Engine {
        async fn fetch(&self, wanted: usize, gate: &Semaphore) -> Answer {
            self.calls.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.expect("it is open").forget();
            Ok(self.last.fetch_add(wanted as u64, Ordering::SeqCst))
        }
    }

    #[tokio::test]
    async fn those_who_come_meanwhile_share_a_row_and_get_numbers_of_their_own() {
        let (numbers, engine, gate) =
            (Arc::<Numbers>::default(), Arc::<Engine>::default(), Arc::new(Semaphore::new(0)));
        let take = |wanted| {
            let (numbers, engine, gate) = (Arc::clone(&numbers), Arc::clone(&engine), Arc::clone(&gate));
            tokio::spawn(async move { numbers.take(wanted, |all| engine.fetch(all, &gate)).await })
        };
        let first = take(3);
        while engine.calls.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (1..=50).map(take).collect();
        while numbers.waiting.lock().expect("nobody panics").len() < 50 {
            tokio::task::yield_now().await;
        }
        // One that goes away takes nobody with it.
        others[20].abort();
        gate.add_permits(2);
        assert_eq!(first.await.expect("it ends").ok(), Some(0));
        let mut rows = Vec::new();
        for (wanted, other) in (1..=50_u64).zip(others) {
            if let Ok(row) = other.await {
                rows.push((row.expect("a row"), wanted));
            }
        }
        rows.sort_unstable();
        assert_eq!((rows.len(), engine.calls.load(Ordering::SeqCst)), (49, 2));
        assert!(rows[0].0 >= 3 && rows.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{rows:?}");
    }

    #[tokio::test]
    async fn who_fetches_for_others_may_go_away() {
        let (numbers, engine) = (Arc::<Numbers>::default(), Arc::<Engine>::default());
        let (shut, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(100)));
        let take = |gate: &Arc<Semaphore>| {
            let (numbers, engine, gate) = (Arc::clone(&numbers), Arc::clone(&engine), Arc::clone(gate));
            tokio::spawn(async move { numbers.take(1, |all| engine.fetch(all, &gate)).await })
        };
        // The first is stuck; the second waits for its turn, and the third is on the list of whoever is next.
        let stuck = take(&shut);
        while engine.calls.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        let others = [take(&open), take(&open)];
        stuck.abort();
        for other in others {
            assert!(other.await.expect("it ends").is_ok());
        }
    }
}
