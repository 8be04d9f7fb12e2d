//! Where live jobs are: a slot each, found by number or by topic and id.
//!
//! A job that is in use is open: a [`Job`] like any other. One that waits for its time or was put aside is packed: its
//! record as the journal has it, and beside it the [`JobMeta`] that says all that is needed to find it, to put it in order
//! and to hand it out. Packed it takes a fraction of the memory, and a start need not take it apart.

use std::borrow::Cow;
use std::hash::BuildHasher;

use dwell_core::{Job, JobId, Number, TopicName};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashTable;
use timing_wheel::Key;

use super::arena::{Arena, Packed};
use super::id_table::{NO_HASH, ProbeTable};
use super::index::Indexed;
pub(super) use super::pages::Index;
use super::pages::Pages;
use crate::format::record::{self, BodyPart, Cause, JobMeta, TopicId, id_of};

/// A live job and what the engine keeps beside it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) meta: JobMeta,
    form: Form,
    pub(super) topic: TopicId,
    /// Which of its topic's indexes it is in.
    pub(super) indexed: Indexed,
    /// Its next timer.
    pub(super) timer: Option<Key>,
    pub(super) home: Home,
}

/// Jobs that are looked ahead to at a time: more would drive each other out of near memory before they are used.
pub(super) const PREFETCH_BATCH: usize = 64;

/// Where the newest copy of a job with its body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home(u64);

impl Home {
    /// In the cold tier, as it is in memory.
    pub(super) const COLD: Self = Self(u64::MAX);

    /// In a flush that is under way.
    pub(super) const FLUSHING: Self = Self(u64::MAX - 1);

    /// In the journal, in the record of this sequence.
    pub(super) fn journal(sequence: u64) -> Self {
        debug_assert!(sequence < Self::FLUSHING.0, "sequences are reserved below 2^53");
        Self(sequence)
    }

    /// Whether it is in the journal before this sequence.
    pub(super) fn is_before(self, sequence: u64) -> bool {
        self.0 < sequence
    }
}

impl Slot {
    /// Whether the job is in the cold tier as it is, or soon will be.
    pub(super) fn is_clean(&self) -> bool {
        self.home == Home::COLD || self.home == Home::FLUSHING
    }
}

/// The job itself.
#[derive(Debug)]
enum Form {
    Packed(Packed),
    Open {
        job: Box<Job>,
        /// Bytes it is reckoned to take.
        weight: u32,
    },
}

/// All slots.
#[derive(Default)]
pub(super) struct Slots {
    pages: Pages<Slot>,
    by_number: HashTable<Entry>,
    by_id: ProbeTable,
    hash: IdHash,
    arena: Arena,
    /// Bytes all open jobs are reckoned to take.
    open: usize,
    /// Where jobs are packed.
    scratch: Vec<u8>,
    /// While loading: what the table of ids is made of.
    ids: Ids,
}

impl Slots {
    /// Gives a packed job a slot. This is its record.
    pub(super) fn insert_packed(
        &mut self,
        topic: TopicId,
        meta: JobMeta,
        id: &str,
        record: &[u8],
        home: Home,
    ) -> Index {
        let form = Form::Packed(self.arena.add(record));
        let id = self.hash_of(topic, id);
        self.insert(Slot { meta, form, topic, indexed: Indexed::None, timer: None, home }, id)
    }

    /// Gives an open job a slot. This is the hash of its id.
    pub(super) fn insert_open(&mut self, topic: TopicId, job: Box<Job>, id: u32, home: Home) -> Index {
        let (meta, weight) = (JobMeta::of(&job), weight(&job));
        self.open += weight as usize;
        let form = Form::Open { job, weight };
        self.insert(Slot { meta, form, topic, indexed: Indexed::None, timer: None, home }, id)
    }

    fn insert(&mut self, slot: Slot, id: u32) -> Index {
        let number = slot.meta.number;
        let index = self.pages.insert(slot);
        self.list_number(number, index);
        self.by_id.insert(id, index);
        index
    }

    /// How an id is hashed here.
    pub(super) fn hash_of(&self, topic: TopicId, id: &str) -> u32 {
        self.hash.of(topic, id.as_bytes())
    }

    fn list_number(&mut self, number: Number, index: Index) {
        let hash = self.hash_number(number);
        self.by_number.insert_unique(spread(hash), Entry { hash, index }, |entry| spread(entry.hash));
    }

    pub(super) fn remove(&mut self, index: Index) -> Slot {
        let by_id = self.hash.of(self.get(index).topic, self.id(index));
        self.by_id.remove(by_id, index);
        let slot = self.remove_unnamed(index);
        self.give_back();
        slot
    }

    /// Removes a job that is not yet found by its id.
    fn remove_unnamed(&mut self, index: Index) -> Slot {
        let slot = self.pages.remove(index).expect("only live slots are removed");
        let by_number = self.hash_number(slot.meta.number);
        if let Ok(entry) = self.by_number.find_entry(spread(by_number), |entry| entry.index == index) {
            entry.remove();
        }
        match &slot.form {
            Form::Packed(packed) => self.arena.remove(*packed),
            Form::Open { weight, .. } => self.open -= *weight as usize,
        }
        slot
    }

    /// Tables that were large once do not stay so: what is left would lie far apart in them.
    fn give_back(&mut self) {
        let jobs = self.by_number.len();
        if self.by_number.capacity() > SHRINK_ABOVE_ENTRIES.max(8 * jobs) {
            self.by_number.shrink_to(2 * jobs, |entry| spread(entry.hash));
        }
        if self.by_id.capacity() > SHRINK_ABOVE_ENTRIES.max(8 * jobs) {
            self.by_id.shrink_to(2 * jobs);
        }
    }

    pub(super) fn get(&self, index: Index) -> &Slot {
        self.pages.get(index).expect("indexes name live slots")
    }

    pub(super) fn get_mut(&mut self, index: Index) -> &mut Slot {
        self.pages.get_mut(index).expect("indexes name live slots")
    }

    /// The slot at this place, if there is one: for whoever walks over all of them.
    pub(super) fn peek(&self, index: Index) -> Option<&Slot> {
        self.pages.get(index)
    }

    /// No index is this large or larger.
    pub(super) fn end(&self) -> Index {
        self.pages.end()
    }

    pub(super) fn by_number(&self, number: Number) -> Option<Index> {
        let hash = self.hash_number(number);
        let same = |entry: &Entry| entry.hash == hash && self.get(entry.index).meta.number == number;
        self.by_number.find(spread(hash), same).map(|entry| entry.index)
    }

    pub(super) fn by_id(&self, topic: TopicId, id: &str) -> Option<Index> {
        let hash = self.hash_of(topic, id);
        self.by_id.find(hash, |index| self.get(index).topic == topic && self.id(index) == id.as_bytes())
    }

    fn id(&self, index: Index) -> &[u8] {
        match &self.get(index).form {
            Form::Packed(packed) => id_of(self.arena.get(*packed)),
            Form::Open { job, .. } => job.id.as_str().as_bytes(),
        }
    }

    /// Jobs with ids of these hashes are about to be added: see [`ProbeTable::prefetch_hashes`].
    pub(super) fn prefetch_ids(&self, ids: impl IntoIterator<Item = u32>) {
        self.by_id.prefetch_hashes(ids);
    }

    /// Jobs of these numbers are about to be removed. All that is needed to find them is looked at, one thing after the
    /// other but each for all of them.
    pub(super) fn prefetch_numbers(&self, numbers: impl IntoIterator<Item = Number>) {
        let slots: Vec<&Slot> = numbers.into_iter().filter_map(|of| Some(self.get(self.by_number(of)?))).collect();
        let open = slots.iter().filter_map(|slot| match &slot.form {
            Form::Open { job, .. } => Some((slot.topic, &job.id)),
            Form::Packed(_) => None,
        });
        let ids: Vec<(TopicId, &JobId)> = open.collect();
        let hashes: Vec<u32> = ids.iter().map(|(topic, id)| self.hash_of(*topic, id.as_str())).collect();
        self.by_id.prefetch_hashes(hashes);
    }

    /// The job. Its topic is called `topic`.
    pub(super) fn job(&self, index: Index, topic: &TopicName) -> Cow<'_, Job> {
        match &self.get(index).form {
            Form::Packed(packed) => Cow::Owned(record::decode_seen(self.arena.get(*packed), topic)),
            Form::Open { job, .. } => Cow::Borrowed(job),
        }
    }

    /// The job, to be changed. Then [`Slots::changed`] is to be called. Its topic is called `topic`.
    pub(super) fn open(&mut self, index: Index, topic: &TopicName) -> &mut Job {
        if let Form::Packed(packed) = self.get(index).form {
            let job = Box::new(record::decode_seen(self.arena.get(packed), topic));
            self.arena.remove(packed);
            let weight = weight(&job);
            self.open += weight as usize;
            self.get_mut(index).form = Form::Open { job, weight };
        }
        match &mut self.get_mut(index).form {
            Form::Open { job, .. } => job,
            Form::Packed(_) => unreachable!("opened just now"),
        }
    }

    /// An open job has been changed.
    pub(super) fn changed(&mut self, index: Index) {
        let slot = self.pages.get_mut(index).expect("indexes name live slots");
        if let Form::Open { job, weight: of } = &mut slot.form {
            let old = std::mem::replace(of, weight(job));
            self.open = self.open - old as usize + *of as usize;
            slot.meta = JobMeta::of(job);
        }
    }

    /// Packs a job that is not used for now.
    pub(super) fn pack(&mut self, index: Index) {
        let slot = self.pages.get_mut(index).expect("indexes name live slots");
        let Form::Open { job, weight } = &slot.form else { return };
        self.scratch.clear();
        record::encode_job(&mut self.scratch, slot.topic, Cause::Relog, job, BodyPart::Here);
        self.open -= *weight as usize;
        slot.form = Form::Packed(self.arena.add(&self.scratch));
    }

    /// Appends the job's whole record.
    pub(super) fn encode_again(&self, index: Index, out: &mut Vec<u8>) {
        let slot = self.get(index);
        match &slot.form {
            Form::Packed(packed) => record::encode_job_again(out, self.arena.get(*packed)),
            Form::Open { job, .. } => record::encode_job(out, slot.topic, Cause::Relog, job, BodyPart::Here),
        }
    }

    /// Bytes of memory one job takes by itself.
    pub(super) fn bytes(&self, index: Index) -> usize {
        match &self.get(index).form {
            Form::Packed(packed) => packed.len(),
            Form::Open { weight, .. } => *weight as usize,
        }
    }

    /// Bytes of memory all jobs take, with what is held for jobs to come.
    pub(super) fn weight(&self) -> usize {
        let tables = self.by_number.allocation_size() + self.by_id.size();
        self.pages.held() + self.by_number.len() * INDEX_BYTES_A_JOB + tables + self.open + self.arena.held()
    }

    /// Bytes all jobs take in the journal, or a little more.
    pub(super) fn live(&self) -> usize {
        self.open + self.arena.used()
    }

    fn hash_number(&self, number: Number) -> u32 {
        // Numbers are given one after the other: neighbours stay neighbours, so that a row of them is in few places.
        let (row, place) = (number.get() >> 6, number.get() & 63);
        shorten(self.hash.0.hash_one(row)).wrapping_add(u32::try_from(place).expect("below 64"))
    }
}

/// Moving packed jobs together.
impl Slots {
    /// Whether there is so much between packed jobs that some should be moved.
    pub(super) fn wants_moving(&self, short: bool) -> bool {
        self.arena.wants_moving(short)
    }

    pub(super) fn begin_moving(&mut self, short: bool) {
        self.arena.begin_moving(short);
    }

    /// Moves a job if what is around it is to be given back; how many bytes that were.
    pub(super) fn move_packed(&mut self, index: Index) -> usize {
        let Some(slot) = self.pages.get_mut(index) else { return 0 };
        let Form::Packed(packed) = &mut slot.form else { return 0 };
        let moved = self.arena.moved(*packed);
        moved.map_or(0, |moved| {
            *packed = moved;
            moved.len()
        })
    }
}

/// Jobs as a start finds them. They are found by their ids once all of them are there.
impl Slots {
    /// The place of a segment that is being read; its bytes are to be loaded when all of it has been.
    pub(super) fn expect_segment(&mut self) -> u32 {
        self.arena.expect_chunk()
    }

    pub(super) fn bring_segment(&mut self, chunk: u32, bytes: Vec<u8>) {
        self.arena.load(chunk, bytes);
    }

    /// This is the hash of its id, of [`Slots::id_hash`].
    pub(super) fn load(&mut self, topic: TopicId, meta: JobMeta, id: u32, record: RecordLocation, home: Home) {
        let form = Form::Packed(self.arena.hold(record.chunk, record.at, record.length));
        // Nearly all of them wait for their time; so the slots of most need not be written again.
        let slot = Slot { meta, form, topic, indexed: Indexed::Delayed, timer: None, home };
        let index = self.pages.insert(slot);
        self.list_number(meta.number, index);
        self.ids.set(index, id);
    }

    pub(super) fn id_hash(&self) -> IdHash {
        self.hash.clone()
    }

    /// So many more jobs may have to be loaded.
    pub(super) fn make_room(&mut self, jobs: usize) {
        self.by_number.reserve(jobs, |entry| spread(entry.hash));
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// A later record of a job, with its body, takes the place of the one before.
    pub(super) fn load_again(&mut self, index: Index, record: RecordLocation) {
        let packed = self.arena.hold(record.chunk, record.at, record.length);
        if let Form::Packed(old) = std::mem::replace(&mut self.get_mut(index).form, Form::Packed(packed)) {
            self.arena.remove(old);
        }
    }

    pub(super) fn unload(&mut self, index: Index) -> TopicId {
        self.ids.set(index, NO_HASH);
        self.remove_unnamed(index).topic
    }

    /// Everything has been loaded. The ids are to be put into a table, for [`Slots::name`].
    pub(super) fn loaded(&mut self) -> Ids {
        let jobs = self.len();
        if self.by_number.capacity() > 4 * jobs {
            self.by_number.shrink_to(jobs, |entry| spread(entry.hash));
        }
        self.ids.jobs = jobs;
        std::mem::take(&mut self.ids)
    }

    /// From now on jobs are found by their ids.
    pub(super) fn name(&mut self, ids: IdTable) {
        self.by_id = ids.0;
    }
}

/// How ids are hashed: by whoever has time.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdHash(FastHash);

impl IdHash {
    pub(crate) fn of(&self, topic: TopicId, id: &[u8]) -> u32 {
        shorten(self.0.hash_one((topic.0, id)))
    }
}

/// The hashes of the ids of all jobs that were loaded, by slot.
#[derive(Default)]
pub(crate) struct Ids {
    hashes: Vec<u32>,
    jobs: usize,
}

/// Jobs by the hashes of their ids.
pub(crate) struct IdTable(ProbeTable);

impl Ids {
    fn set(&mut self, index: Index, hash: u32) {
        let place = index as usize;
        if place >= self.hashes.len() {
            self.hashes.resize(place + 1, NO_HASH);
        }
        self.hashes[place] = hash;
    }

    /// Makes the table, which is the same wherever it is made.
    pub(crate) fn into_table(self) -> IdTable {
        let mut table = ProbeTable::with_capacity(self.jobs);
        for (hash, index) in self.hashes.into_iter().zip(0..) {
            if hash != NO_HASH {
                table.insert(hash, index);
            }
        }
        IdTable(table)
    }
}

/// Where in an expected segment a record lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLocation {
    /// The segment's place.
    pub(crate) chunk: u32,
    /// Where the record begins.
    pub(crate) at: usize,
    /// How long it is.
    pub(crate) length: usize,
}

/// An entry of the table of numbers. It carries its hash, so that the table can grow without a look at every job.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    index: Index,
}

/// Half of a hash is enough to tell jobs apart. It is not [`NO_HASH`].
fn shorten(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("half of it").max(NO_HASH + 1)
}

/// The table of numbers takes the place from the low bits, which stay as they are, and a tag from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 32 | u64::from(hash)
}

/// Entries of a table that is worth making smaller.
const SHRINK_ABOVE_ENTRIES: usize = 16 << 10;

/// Bytes a job is reckoned to take in its topic's indexes.
const INDEX_BYTES_A_JOB: usize = 40;

/// Bytes an open job is reckoned to take.
fn weight(job: &Job) -> u32 {
    /// The job, and the headers of its allocations.
    const FIXED_BYTES: usize = size_of::<Job>() + 64;
    let headers: usize = job.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    let deliveries: usize = job.deliveries.iter().map(|delivery| 64 + delivery.answer.as_bytes().len()).sum();
    let bytes = FIXED_BYTES + job.id.as_str().len() + job.body.len() + headers + deliveries;
    u32::try_from(bytes).expect("a job is a few mebibytes at the most")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_small() {
        assert_eq!(size_of::<Option<Slot>>(), 64);
    }
}
