//! The queue as its users hold it.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::key::Key;
use crate::pop::Pop;
use crate::state::State;

/// Values that wait until they are due, and consumers that wait for values.
///
/// Clones share one queue. The [crate documentation](crate) says what it promises.
pub struct DelayQueue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    clock: Clock,
    state: Mutex<State<T>>,
}

impl<T> DelayQueue<T> {
    /// An empty queue, whose clock starts now.
    #[expect(clippy::new_without_default, reason = "it reads a clock")]
    pub fn new() -> Self {
        let state = Mutex::new(State::new());
        Self { shared: Arc::new(Shared { clock: Clock::start(), state }) }
    }

    /// Adds a value, due when `delay` has passed.
    pub fn push(&self, value: T, delay: Duration) -> Key {
        let deadline = self.clock().after(delay);
        Key(self.with(|state| state.wheel.insert(deadline, value)))
    }

    /// Adds a value, due at `instant`; at once if that has passed.
    pub fn push_at(&self, value: T, instant: Instant) -> Key {
        let deadline = self.clock().at(instant);
        Key(self.with(|state| state.wheel.insert(deadline, value)))
    }

    /// Waits for a value that is due, and takes it.
    ///
    /// `None` when the queue is [closed](Self::close) and nothing is left in it. Dropping the future
    /// is always safe; see the [crate documentation](crate).
    pub fn pop(&self) -> Pop<'_, T> {
        Pop::new(self)
    }

    /// Takes a value that is due, if there is one.
    pub fn try_pop(&self) -> Option<T> {
        loop {
            let now = self.clock().now();
            if let Ok(value) = self.with(|state| state.try_pop(now)) {
                return value;
            }
        }
    }

    /// Takes a value before it is due; `None` if the key is stale.
    pub fn cancel(&self, key: Key) -> Option<T> {
        self.with(|state| state.wheel.cancel(key.0))
    }

    /// Lets a value be due when `delay` has passed from now instead; its key stays good. `false` if
    /// the key is stale.
    pub fn reschedule(&self, key: Key, delay: Duration) -> bool {
        let deadline = self.clock().after(delay);
        self.with(|state| state.wheel.reschedule(key.0, deadline))
    }

    /// Lets a value be due at `instant` instead; its key stays good. `false` if the key is stale.
    pub fn reschedule_at(&self, key: Key, instant: Instant) -> bool {
        let deadline = self.clock().at(instant);
        self.with(|state| state.wheel.reschedule(key.0, deadline))
    }

    /// Lets consumers go once the queue is empty: what is in it still comes out when it is due, then
    /// [`pop`](Self::pop) returns `None` to everyone.
    ///
    /// A value pushed later is not refused. Whoever still pops will get it.
    pub fn close(&self) {
        self.with(State::close);
    }

    /// How many values are in the queue, due or not.
    pub fn len(&self) -> usize {
        self.with(|state| state.wheel.len())
    }

    /// Whether no value is in the queue.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Everything that is done to the state is done here, so that nobody forgets to wake whom it
    /// concerns. Wakers run after the lock is released, as they are other people's code.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.shared.state.lock().expect("nothing panics under this lock");
        let result = work(&mut state);
        let wakers = state.settle();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }
}

impl<T> Clone for DelayQueue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}
