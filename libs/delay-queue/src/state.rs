//! What the lock guards: the values, and who waits for them. No clock, no task.
//!
//! Two things hold whenever the lock is free:
//!
//! 1. if there is a value and somebody waits, there is a leader;
//! 2. the leader has been woken since it last looked, or sleeps until a time no later than the
//!    next deadline.

use std::collections::BTreeMap;
use std::task::Waker;

use timing_wheel::{Pop, TimingWheel};

/// Units of the wheel's work done at a time, about ten microseconds. Others get the lock after
/// that, even if a million values fall due at once.
const BUDGET: usize = 256;

/// In what order consumers came.
pub(crate) type Ticket = u64;

/// The consumer that keeps the time for all.
struct Leader {
    ticket: Ticket,
    waker: Waker,
    /// Until when it sleeps; 0 once it has been woken.
    until: u64,
}

pub(crate) struct State<T> {
    pub(crate) wheel: TimingWheel<T>,
    leader: Option<Leader>,
    /// Those who wait and are not the leader, the longest waiting first.
    parked: BTreeMap<Ticket, Waker>,
    next_ticket: Ticket,
    is_closed: bool,
}

/// What a consumer finds when it looks.
pub(crate) enum Look<T> {
    /// A value that is due, or `None` because there never will be one.
    Done(Option<T>),
    /// Nothing is due: it has become the leader and sleeps until this time.
    Lead(u64),
    /// Nothing is due: it is parked, somebody else leads or there is nothing to wait for.
    Park,
    /// The wheel needs more work before it can tell. It has become the leader: look again soon.
    Again,
}

impl<T> State<T> {
    pub(crate) fn new() -> Self {
        Self { wheel: TimingWheel::new(0), leader: None, parked: BTreeMap::new(), next_ticket: 0, is_closed: false }
    }

    pub(crate) fn issue_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// One look on behalf of the consumer with `ticket`, which is woken by `waker` if it has to wait.
    pub(crate) fn look(&mut self, ticket: Ticket, waker: &Waker, now: u64) -> Look<T> {
        self.forget(ticket);
        match self.wheel.pop(now, &mut { BUDGET }) {
            Pop::Expired(entry) => Look::Done(Some(entry.value)),
            Pop::OutOfBudget => {
                if let Some(leader) = self.leader.take() {
                    self.parked.insert(leader.ticket, leader.waker);
                }
                self.leader = Some(Leader { ticket, waker: waker.clone(), until: 0 });
                Look::Again
            }
            Pop::Nothing => self.wait(ticket, waker),
        }
    }

    /// As much as [`look`](Self::look) does for one who does not wait. `Err` if it must look again.
    pub(crate) fn try_pop(&mut self, now: u64) -> Result<Option<T>, ()> {
        match self.wheel.pop(now, &mut { BUDGET }) {
            Pop::Expired(entry) => Ok(Some(entry.value)),
            Pop::Nothing => Ok(None),
            Pop::OutOfBudget => Err(()),
        }
    }

    /// The consumer with `ticket` neither leads nor is parked any longer.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        if self.leader.as_ref().is_some_and(|leader| leader.ticket == ticket) {
            self.leader = None;
        }
        self.parked.remove(&ticket);
    }

    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Restores what must hold when the lock is released. The wakers are to be woken after that.
    #[must_use]
    pub(crate) fn settle(&mut self) -> Vec<Waker> {
        let Some(next) = self.wheel.next_deadline() else {
            return if self.is_closed { self.dismiss() } else { Vec::new() };
        };
        if let Some(leader) = &mut self.leader {
            if leader.until <= next {
                return Vec::new();
            }
            leader.until = 0;
            return vec![leader.waker.clone()];
        }
        let Some((ticket, waker)) = self.parked.pop_first() else {
            return Vec::new();
        };
        self.leader = Some(Leader { ticket, waker: waker.clone(), until: 0 });
        vec![waker]
    }

    fn wait(&mut self, ticket: Ticket, waker: &Waker) -> Look<T> {
        match self.wheel.next_deadline() {
            None if self.is_closed => Look::Done(None),
            Some(until) if self.leader.is_none() => {
                self.leader = Some(Leader { ticket, waker: waker.clone(), until });
                Look::Lead(until)
            }
            _ => {
                self.parked.insert(ticket, waker.clone());
                Look::Park
            }
        }
    }

    /// Nobody has anything to wait for any longer.
    fn dismiss(&mut self) -> Vec<Waker> {
        let leader = self.leader.take().filter(|leader| leader.until != 0);
        let parked = std::mem::take(&mut self.parked);
        leader.map(|leader| leader.waker).into_iter().chain(parked.into_values()).collect()
    }
}
