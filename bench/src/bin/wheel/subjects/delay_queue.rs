//! tokio-util's `DelayQueue`. Its clock is tokio's, paused and then moved on past the last
//! deadline, so that nothing waits. A step is one `poll_expired`.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::{Timers, Value};

pub(crate) struct TokioUtil {
    queue: DelayQueue<Value>,
    start: Instant,
    runtime: &'static Runtime,
    _inside: EnterGuard<'static>,
}

impl TokioUtil {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        // Lives as long as the process, which does this one measurement.
        let runtime: &Runtime = Box::leak(Box::new(runtime.expect("a runtime without I/O")));
        let inside = runtime.enter();
        let start = runtime.block_on(async { Instant::now() });
        Self { queue: DelayQueue::new(), start, runtime, _inside: inside }
    }
}

impl Timers for TokioUtil {
    type Key = Key;

    fn insert(&mut self, deadline: u64, value: Value) -> Key {
        self.queue.insert_at(value, self.start + Duration::from_millis(deadline))
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }

    fn jump(&mut self, end: u64) {
        self.runtime.block_on(tokio::time::advance(Duration::from_millis(end + 1_000)));
    }

    fn step(&mut self, _end: u64) -> Option<usize> {
        match self.queue.poll_expired(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(expired)) => {
                black_box(expired.into_inner());
                Some(1)
            }
            Poll::Ready(None) => None,
            Poll::Pending => unreachable!("everything is due"),
        }
    }
}
