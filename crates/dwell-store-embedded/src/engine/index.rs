//! Keeping a topic's indexes true: a job is taken out before it changes and put back after.

use dwell_core::Line;

use super::Engine;
use super::slots::{Home, Index, Slot};
use crate::format::record::{PhaseKind, TopicId};

/// Which of its topic's indexes a job is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexed {
    /// In none.
    None,
    /// Waiting, and not yet promoted.
    Delayed,
    /// Waiting, and ready on this line.
    Ready(Line),
    /// Leased.
    Leased,
    /// Buried.
    Buried,
}

impl Engine {
    /// Takes a job out of its topic's indexes.
    pub(super) fn unindex(&mut self, index: Index) {
        let slot = self.slots.get_mut(index);
        let indexed = std::mem::replace(&mut slot.indexed, Indexed::None);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        let place = slot.meta.place();
        if slot.home == Home::COLD && matches!(indexed, Indexed::Ready(_)) {
            topic.count_clean(&slot.meta, |of| of.ready -= 1);
        }
        match indexed {
            Indexed::None => {}
            Indexed::Leased => topic.leased.remove(place, index),
            Indexed::Buried => topic.buried.remove(place, index),
            Indexed::Delayed => {
                topic.waiting.remove(place, index);
                if !slot.is_clean() {
                    topic.minutes.remove(place.0);
                    self.minutes.remove(place.0);
                }
            }
            Indexed::Ready(line) => {
                topic.waiting.remove(place, index);
                if !slot.is_clean() {
                    topic.minutes.remove(place.0);
                    self.minutes.remove(place.0);
                }
                topic.ready_count -= 1;
                topic.urgent_count -= u64::from(slot.meta.rank().0.is_urgent());
                let queue = topic.ready.get_mut(&line).expect("a ready job is on its line");
                queue.remove(&slot.meta.rank());
                if queue.is_empty() {
                    topic.ready.remove(&line);
                }
            }
        }
        let id = slot.topic;
        if matches!(indexed, Indexed::Ready(_)) {
            self.note_pushing(id);
        }
        // A place in flight is free, or the head of a line is another: someone who waits may have a job now.
        if indexed == Indexed::Leased {
            self.waiters.mark(id);
        }
    }

    /// Puts a job into its topic's indexes and sets the timers it needs.
    pub(super) fn index(&mut self, index: Index) {
        let slot = self.slots.get_mut(index);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        let place = slot.meta.place();
        match slot.meta.phase {
            PhaseKind::Leased => {
                topic.leased.insert(place, index);
                slot.indexed = Indexed::Leased;
            }
            PhaseKind::Buried => {
                topic.buried.insert(place, index);
                slot.indexed = Indexed::Buried;
            }
            PhaseKind::Waiting => {
                topic.waiting.insert(place, index);
                if !slot.is_clean() {
                    topic.minutes.add(place.0, 1);
                    self.minutes.add(place.0, 1);
                }
                slot.indexed = Indexed::Delayed;
                let id = slot.topic;
                if place.0 <= self.now.at {
                    self.promote(index);
                } else {
                    self.promote_at(id, place);
                }
            }
        }
        self.set_timer(index);
        // What is ready will be used soon, and what is leased is in use.
        if matches!(self.slots.get(index).indexed, Indexed::Delayed | Indexed::Buried) {
            self.slots.pack(index);
        }
    }

    /// A delayed job is due.
    pub(super) fn promote(&mut self, index: Index) {
        let slot = self.slots.get_mut(index);
        debug_assert_eq!(slot.indexed, Indexed::Delayed);
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        let line = slot.meta.line;
        topic.ready.entry(line).or_default().insert(slot.meta.rank(), index);
        topic.ready_count += 1;
        if slot.home == Home::COLD {
            topic.count_clean(&slot.meta, |of| of.ready += 1);
        }
        topic.urgent_count += u64::from(slot.meta.rank().0.is_urgent());
        slot.indexed = Indexed::Ready(line);
        let id = slot.topic;
        self.waiters.mark(id);
        self.note_pushing(id);
    }

    /// Keeps the list of topics with ready jobs for couriers.
    pub(super) fn note_pushing(&mut self, id: TopicId) {
        if self.topics.get(&id).is_some_and(|topic| topic.is_pushing(self.now.at)) {
            self.pushing.insert(id);
        } else {
            self.pushing.remove(&id);
        }
    }

    /// Forgets a job that is no more.
    pub(super) fn remove(&mut self, index: Index) -> Slot {
        self.unindex(index);
        let slot = self.slots.remove(index);
        if let Some(timer) = slot.timer {
            self.wheel.cancel(timer);
        }
        slot
    }
}
