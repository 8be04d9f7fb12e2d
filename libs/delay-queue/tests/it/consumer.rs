//! A consumer that is polled by hand and counts how often it is woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use delay_queue::{DelayQueue, Pop};

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) struct Consumer<'q, T> {
    pop: Pin<Box<Pop<'q, T>>>,
    counter: Arc<Counter>,
}

impl<'q, T> Consumer<'q, T> {
    /// A consumer that waits already.
    pub(crate) fn waiting(queue: &'q DelayQueue<T>) -> Self {
        let mut consumer = Self { pop: Box::pin(queue.pop()), counter: Arc::default() };
        assert!(consumer.poll().is_pending());
        consumer
    }

    pub(crate) fn poll(&mut self) -> Poll<Option<T>> {
        let waker = Waker::from(Arc::clone(&self.counter));
        self.pop.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// How often it was woken since this was last asked.
    pub(crate) fn wakes(&self) -> usize {
        self.counter.0.swap(0, Ordering::SeqCst)
    }
}

/// How often each was woken since this was last asked.
pub(crate) fn wakes<T>(consumers: &[Consumer<'_, T>]) -> Vec<usize> {
    consumers.iter().map(Consumer::wakes).collect()
}
