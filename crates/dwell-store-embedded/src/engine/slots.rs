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
    by_number: HashTable<Entry>,
    by_id: HashTable<Entry>,
    hash: FastHash,
    weight: usize,
}

impl Slots {
    pub(super) fn insert(&mut self, slot: Slot) -> Index {
        let index = self.free.pop().unwrap_or_else(|| {
            self.boxes.push(None);
            Index::try_from(self.boxes.len() - 1).expect("memory ends before 2^32 jobs")
        });
        let (by_number, by_id) = (self.hash_number(slot.job.number), self.hash_id(slot.topic, &slot.job.id));
        self.weight += slot.weight;
        self.boxes[index as usize] = Some(Box::new(slot));
        insert(&mut self.by_number, by_number, index);
        insert(&mut self.by_id, by_id, index);
        index
    }

    pub(super) fn remove(&mut self, index: Index) -> Slot {
        let slot = self.boxes[index as usize].take().expect("only live slots are removed");
        self.weight -= slot.weight;
        let (by_number, by_id) = (self.hash_number(slot.job.number), self.hash_id(slot.topic, &slot.job.id));
        for (table, hash) in [(&mut self.by_number, by_number), (&mut self.by_id, by_id)] {
            if let Ok(entry) = table.find_entry(spread(hash), |entry| entry.index == index) {
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
        let hash = self.hash_number(number);
        let same = |entry: &Entry| entry.hash == hash && self.get(entry.index).job.number == number;
        self.by_number.find(spread(hash), same).map(|entry| entry.index)
    }

    pub(super) fn by_id(&self, topic: TopicId, id: &JobId) -> Option<Index> {
        let hash = self.hash_id(topic, id);
        let same = |slot: &Slot| slot.topic == topic && slot.job.id == *id;
        let same = |entry: &Entry| entry.hash == hash && same(self.get(entry.index));
        self.by_id.find(spread(hash), same).map(|entry| entry.index)
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

    fn hash_number(&self, number: Number) -> u32 {
        shorten(self.hash.hash_one(number))
    }

    fn hash_id(&self, topic: TopicId, id: &JobId) -> u32 {
        shorten(self.hash.hash_one((topic.0, id.as_str())))
    }
}

/// A table's entry. It carries its hash, so that a table can grow without a look at every job.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    index: Index,
}

fn insert(table: &mut HashTable<Entry>, hash: u32, index: Index) {
    table.insert_unique(spread(hash), Entry { hash, index }, |entry| spread(entry.hash));
}

/// Half of a hash is enough to tell jobs apart.
fn shorten(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("half of it")
}

/// A table takes the place from the low bits and a tag from the high ones: both must depend on all that is there.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Bytes a job is reckoned to take, with its share of the indexes.
pub(super) fn weight(job: &Job) -> usize {
    /// A slot, its timer, its entries in the indexes, the headers of its allocations.
    const FIXED: usize = size_of::<Slot>() + 160;
    let headers: usize = job.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    let deliveries: usize = job.deliveries.iter().map(|delivery| 64 + delivery.answer.as_bytes().len()).sum();
    FIXED + job.id.as_str().len() + job.body.len() + headers + deliveries
}

fn at(boxes: &[Option<Box<Slot>>], index: Index) -> &Slot {
    boxes[index as usize].as_ref().expect("indexes name live slots")
}
