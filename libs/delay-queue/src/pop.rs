//! Waiting for a value.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep_until};

use crate::queue::DelayQueue;
use crate::state::{Look, Ticket};

/// The future of [`DelayQueue::pop`]. May be dropped at any time.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Pop<'q, T> {
    queue: &'q DelayQueue<T>,
    /// From the first poll until the value.
    ticket: Option<Ticket>,
    /// While it leads.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<'q, T> Pop<'q, T> {
    pub(crate) fn new(queue: &'q DelayQueue<T>) -> Self {
        Self { queue, ticket: None, sleep: None }
    }

    /// Arms the timer of a leader. Ready if the time has already come.
    fn sleep_until(&mut self, deadline: u64, context: &mut Context<'_>) -> Poll<()> {
        let instant = self.queue.clock().instant(deadline);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(instant)));
        if sleep.deadline() != instant {
            sleep.as_mut().reset(instant);
        }
        sleep.as_mut().poll(context)
    }
}

impl<T> Future for Pop<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            let queue = self.queue;
            let now = queue.clock().now();
            let ticket = &mut self.ticket;
            let look = queue.with(|state| {
                let ticket = *ticket.get_or_insert_with(|| state.issue_ticket());
                state.look(ticket, context.waker(), now)
            });
            match look {
                Look::Done(value) => {
                    self.ticket = None;
                    return Poll::Ready(value);
                }
                Look::Lead(deadline) => {
                    if self.sleep_until(deadline, context).is_pending() {
                        return Poll::Pending;
                    }
                }
                Look::Park => {
                    self.sleep = None;
                    return Poll::Pending;
                }
                Look::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Whoever gives up waiting, even between being woken and running, leaves its part to another.
impl<T> Drop for Pop<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.queue.with(|state| state.forget(ticket));
        }
    }
}

impl<T> fmt::Debug for Pop<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pop").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
