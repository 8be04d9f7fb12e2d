//! Where live jobs are: a slot each, found by number or by topic and id.

use std::hash::BuildHasher;

use dwell_core::{Job, JobId, Number};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashTable;
use timing_wheel::Key;

use super::index::Indexed;
use crate::format::record::TopicId;

/// The place of a slot.
pub(super) type Index = u32;

/// A live job and what the engine keeps beside it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) job: Job,
    pub(super) topic: TopicId,
    /// Which of its topic's indexes it is in.
    pub(super) indexed: Indexed,
    /// Its next timer.
    pub(super) timer: Option<Key>,
    /// A segment no later than the one its body is in.
    pub(super) home: u64,
    /// Bytes it is reckoned to take.
    pub(super) weight: usize,
}

/// All slots. Each is a box of its own: growing moves pointers, not jobs.
#[derive(Default)]
pub(super) struct Slots {
    boxes: Vec<Option<Box<Slot>>>,
    free: Vec<Index>,
    by_number: HashTable<Index>,
    by_id: HashTable<Index>,
    hash: FastHash,
    weight: usize,
}

impl Slots {
    pub(super) fn insert(&mut self, slot: Slot) -> Index {
        let index = self.free.pop().unwrap_or_else(|| {
            self.boxes.push(None);
            Index::try_from(self.boxes.len() - 1).expect("memory ends before 2^32 jobs")
        });
        let by_number = self.hash.hash_one(slot.job.number);
        let by_id = self.hash_id(slot.topic, &slot.job.id);
        self.weight += slot.weight;
        self.boxes[index as usize] = Some(Box::new(slot));
        let (slots, hash) = (&self.boxes, &self.hash);
        self.by_number.insert_unique(by_number, index, |&i| hash.hash_one(at(slots, i).job.number));
        self.by_id.insert_unique(by_id, index, |&i| hash_of(hash, at(slots, i)));
        index
    }

    pub(super) fn remove(&mut self, index: Index) -> Slot {
        let slot = self.boxes[index as usize].take().expect("only live slots are removed");
        self.weight -= slot.weight;
        let by_number = self.hash.hash_one(slot.job.number);
        let by_id = self.hash_id(slot.topic, &slot.job.id);
        for (table, hash) in [(&mut self.by_number, by_number), (&mut self.by_id, by_id)] {
            if let Ok(entry) = table.find_entry(hash, |&i| i == index) {
                entry.remove();
            }
        }
        self.free.push(index);
        *slot
    }

    pub(super) fn get(&self, index: Index) -> &Slot {
        at(&self.boxes, index)
    }

    pub(super) fn get_mut(&mut self, index: Index) -> &mut Slot {
        self.boxes[index as usize].as_mut().expect("indexes name live slots")
    }

    /// The slot at this place, if there is one: for whoever walks over all of them.
    pub(super) fn peek(&self, index: Index) -> Option<&Slot> {
        self.boxes.get(index as usize)?.as_deref()
    }

    pub(super) fn by_number(&self, number: Number) -> Option<Index> {
        let hash = self.hash.hash_one(number);
        self.by_number.find(hash, |&i| self.get(i).job.number == number).copied()
    }

    pub(super) fn by_id(&self, topic: TopicId, id: &JobId) -> Option<Index> {
        let same = |slot: &Slot| slot.topic == topic && slot.job.id == *id;
        self.by_id.find(self.hash_id(topic, id), |&i| same(self.get(i))).copied()
    }

    /// How many places there are, taken or not.
    pub(super) fn places(&self) -> Index {
        Index::try_from(self.boxes.len()).expect("memory ends before 2^32 jobs")
    }

    /// Bytes all jobs are reckoned to take.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Puts a job's new weight in place of its old one.
    pub(super) fn weigh(&mut self, index: Index) {
        let slot = self.get_mut(index);
        let (old, new) = (slot.weight, weight(&slot.job));
        slot.weight = new;
        self.weight = self.weight - old + new;
    }

    fn hash_id(&self, topic: TopicId, id: &JobId) -> u64 {
        self.hash.hash_one((topic.0, id.as_str()))
    }
}

/// Bytes a job is reckoned to take, with its share of the indexes.
pub(super) fn weight(job: &Job) -> usize {
    /// A slot, its timer, its entries in the indexes, the headers of its allocations.
    const FIXED: usize = size_of::<Slot>() + 160;
    let headers: usize = job.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    let deliveries: usize = job.deliveries.iter().map(|delivery| 64 + delivery.answer.as_bytes().len()).sum();
    FIXED + job.id.as_str().len() + job.body.len() + headers + deliveries
}

fn at(slots: &[Option<Box<Slot>>], index: Index) -> &Slot {
    slots[index as usize].as_ref().expect("indexes name live slots")
}

fn hash_of(hash: &FastHash, slot: &Slot) -> u64 {
    hash.hash_one((slot.topic.0, slot.job.id.as_str()))
}
