//! Commands that need rows of the cold tier: they are parked until the rows are in memory, then tried again.
//!
//! A command computes its read plan. If the plan is empty it runs at once, on memory alone. Otherwise the rows are read by
//! the reader thread, loaded into memory, and evicted after the command has run. Other commands run meanwhile; a parked
//! command sees their changes when it is tried again.

mod read_errors;
mod read_plan;

use std::collections::BTreeSet;

use dwell_core::{JobId, Number, Phase, RedriveTopic, StoreError, Timestamp};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

use super::slots::{Home, Index};
use super::topic::{Place, Topic};
use super::{Command, Engine};
use crate::cold::View;
use crate::cold::reader::{Form, ReadOutcome, ReadRequest, Ready, Reply, Row, RowRequest, Shown};
use crate::format::key::{Slice, after_place, first_place};
use crate::format::record::{GoneCause, TopicId};
use crate::sim_bugs::{self, Bug};

/// Resident ready jobs of a line that are enough, where more are cold.
pub(super) const READY_WINDOW: usize = 4_096;

/// Rows, and bytes of rows, of one read.
const JOBS_A_ROW: usize = 1_024;
const BYTES_A_ROW: usize = 512 << 10;

/// Jobs loaded for finished commands at which they are evicted though other commands are parked.
const EVICT_AT_LOADED: usize = 16_384;

/// Bytes of a range that are enough: more than one answer has.
const RANGE_BYTES: usize = 16 << 20;

/// Names a read.
pub(crate) type ReadId = u64;

/// A read of the cold tier.
pub(crate) struct ColdRead {
    pub(crate) id: ReadId,
    pub(crate) view: std::sync::Arc<View>,
    pub(crate) question: ReadRequest,
}

/// A command that waits for reads.
pub(super) struct ParkedCommand {
    command: Command,
    known: ReadState,
    /// Failed reads so far.
    failures: u32,
}

/// What reads have found for a command, beside the rows that are loaded.
pub(super) struct ReadState {
    /// Valid for this view and this round of eviction.
    generation: u64,
    dropped: u64,
    /// The time when it was first looked at.
    pub(super) at: Timestamp,
    /// Ids that were looked up: those not in memory are not in the cold tier either.
    looked_up: BTreeSet<(TopicId, JobId)>,
    numbers_looked_up: BTreeSet<Number>,
    /// Ids that are not in the cold tier, whatever is evicted.
    absent: BTreeSet<(TopicId, JobId)>,
    /// All jobs that it names have been looked up.
    is_complete: bool,
    /// Ranges of which every row is resident.
    ranges: Vec<Stretch>,
    /// How many are due by a time.
    pub(super) ranks: HashMap<(Slice, Timestamp), u64, FastHash>,
    /// How many jobs it has purged that were in the cold tier only; up to where, and whether those were all.
    pub(super) purged: u64,
    purged_until: Place,
    purged_all: bool,
    /// Jobs that were loaded for it.
    loaded: Vec<(Index, Number)>,
}

impl Default for ReadState {
    fn default() -> Self {
        Self {
            generation: 0,
            dropped: 0,
            at: Timestamp::EPOCH,
            looked_up: BTreeSet::new(),
            numbers_looked_up: BTreeSet::new(),
            absent: BTreeSet::new(),
            is_complete: false,
            ranges: Vec::new(),
            ranks: HashMap::default(),
            purged: 0,
            purged_until: first_place(),
            purged_all: false,
            loaded: Vec::new(),
        }
    }
}

impl ReadState {
    /// What is missing of a range that begins at `from` until there are so many from `begin` on.
    fn missing(&self, topic: &Topic, buried: bool, from: Place, begin: Place, need: usize) -> Option<ReadNeed> {
        if topic.away(buried) == 0 {
            return None;
        }
        let name = RangeName { topic: topic.id, buried, from };
        let range = self.ranges.iter().find(|range| range.name == name);
        let after = match range {
            None => None,
            Some(range) => {
                let through = range.through?;
                let places = if buried { &topic.buried } else { &topic.waiting };
                let there = if begin <= through { places.count(begin..=through, need) } else { 0 };
                if there >= need || range.bytes >= RANGE_BYTES {
                    return None;
                }
                Some(through)
            }
        };
        Some(ReadNeed::Stretch { name, after, limit: need, only: None })
    }
}

/// A range of a topic's waiting or buried jobs.
struct Stretch {
    name: RangeName,
    /// Up to here, this one included; without one, to the end.
    through: Option<Place>,
    /// Bytes of what was loaded.
    bytes: usize,
}

/// What a command still needs.
enum ReadNeed {
    /// These jobs.
    Jobs(Vec<(TopicId, JobId)>, Vec<Number>),
    /// How many are due by a time.
    Ranks(Vec<(Slice, Timestamp)>),
    /// Jobs of a range, from after a place on; only those that are meant by this redrive, if there is one.
    Stretch { name: RangeName, after: Option<Place>, limit: usize, only: Option<Box<RedriveTopic>> },
    /// Jobs that are to be purged, a few at a time.
    Purge { topic: TopicId, buried: bool, from: Place, until: Timestamp },
    /// The next flush.
    Flush,
    /// Rows of the slices that are in `wanted`.
    ColdSlices,
}

/// What a read is for.
enum Requester {
    /// A parked command.
    Command(Box<ParkedCommand>, ReadKind),
    /// Waiting consumers of this slice.
    Slice { slice: Slice, from: Place, until: Timestamp },
    /// Looking through a slice where a ttl has ended.
    Passage(Slice),
}

/// What a read for a command is to find.
enum ReadKind {
    Jobs(Vec<(TopicId, JobId)>, Vec<Number>),
    Stretch(RangeName, Option<Box<RedriveTopic>>),
    Ranks(Vec<(Slice, Timestamp)>),
    Purge,
}

/// Which range: of a topic's waiting or buried jobs, from where on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RangeName {
    topic: TopicId,
    buried: bool,
    from: Place,
}

/// All reads that are under way, and all parked commands.
#[derive(Default)]
pub(super) struct ColdReads {
    next: ReadId,
    reads: Vec<ColdRead>,
    requesters: HashMap<ReadId, (Requester, u64), FastHash>,
    /// Commands that wait for a flush.
    pub(super) for_flush: Vec<ParkedCommand>,
    /// Commands that wait for slices that have been asked for.
    for_slices: Vec<ParkedCommand>,
    /// Puts that have all they need but room.
    for_room: Vec<ParkedCommand>,
    /// What is known for the command that is being carried out.
    pub(super) known: ReadState,
    /// What was loaded for commands that are done.
    done_with: Vec<(Index, Number)>,
    /// Jobs of a slice that are here, for [`Engine::use_answer`].
    row: Option<(Slice, Vec<Shown>)>,
}

impl ColdReads {
    /// Whether anything is under way.
    pub(super) fn is_idle(&self) -> bool {
        let parked = self.for_flush.is_empty() && self.for_slices.is_empty() && self.for_room.is_empty();
        self.requesters.is_empty() && parked
    }

    /// Answers all commands that wait with an error.
    pub(super) fn refuse(&mut self, error: &StoreError) {
        let requesters = self.requesters.drain().filter_map(|(_, (requester, _))| match requester {
            Requester::Command(parked, _) => Some(*parked),
            Requester::Slice { .. } | Requester::Passage(_) => None,
        });
        let parked = self.for_flush.drain(..).chain(self.for_slices.drain(..)).chain(self.for_room.drain(..));
        let all = requesters.chain(parked);
        all.for_each(|parked| parked.command.refuse(error.clone()));
        self.reads.clear();
    }
}

impl Engine {
    /// Runs a command, now or when the rows it needs are loaded.
    pub(super) fn attempt(&mut self, command: Command) {
        if self.cold.view.runs.is_empty() && self.cold.gone.is_empty() && !self.flush.is_flying() {
            return command.run(self);
        }
        let known = ReadState { at: self.now.at, ..ReadState::default() };
        self.attempt_again(Box::new(ParkedCommand { command, known, failures: 0 }));
    }

    fn attempt_again(&mut self, mut parked: Box<ParkedCommand>) {
        let known = &mut parked.known;
        if (known.generation, known.dropped) != (self.cold.generation, self.cold.dropped) {
            let absent = if known.generation == self.cold.generation {
                std::mem::take(&mut known.absent)
            } else {
                BTreeSet::new()
            };
            let (loaded, purged) = (std::mem::take(&mut known.loaded), known.purged);
            let (generation, dropped, at) = (self.cold.generation, self.cold.dropped, self.now.at);
            *known = ReadState { generation, dropped, at, absent, purged, loaded, ..ReadState::default() };
        }
        match parked.command.missing(self, &parked.known) {
            // There was room when it came; others have taken it while the cold tier was asked.
            None if matches!(parked.command, Command::Put { .. }) && self.puts_wait() => {
                self.cold_reads.for_room.push(*parked);
            }
            None => {
                let ParkedCommand { command, mut known, .. } = *parked;
                self.cold_reads.done_with.append(&mut known.loaded);
                self.cold_reads.known = known;
                command.run(self);
                self.cold_reads.known = ReadState::default();
            }
            Some(ReadNeed::Jobs(ids, numbers)) => {
                let question = ReadRequest::Find { ids: ids.clone(), numbers: numbers.clone() };
                self.ask(Requester::Command(parked, ReadKind::Jobs(ids, numbers)), question);
            }
            Some(ReadNeed::Ranks(ranks)) => {
                let question = ReadRequest::Ranks(ranks.clone());
                self.ask(Requester::Command(parked, ReadKind::Ranks(ranks)), question);
            }
            Some(ReadNeed::Stretch { name, after, limit, only }) => {
                let slices = self.topics[&name.topic].cold_slices(name.buried).map(|(slice, _)| slice).collect();
                let from = after.map_or(name.from, after_place);
                let (limit, bytes) = (limit.clamp(16, 2_048), RANGE_BYTES);
                let row = RowRequest { slices, from, until: Timestamp::MAX, limit, bytes, ready: None };
                self.ask(Requester::Command(parked, ReadKind::Stretch(name, only)), ReadRequest::Row(row));
            }
            Some(ReadNeed::Purge { topic, buried, from, until }) => {
                let slices = self.topics[&topic].cold_slices(buried).map(|(slice, _)| slice).collect();
                let row = RowRequest { slices, from, until, limit: JOBS_A_ROW, bytes: BYTES_A_ROW, ready: None };
                self.ask(Requester::Command(parked, ReadKind::Purge), ReadRequest::Row(row));
            }
            Some(ReadNeed::Flush) => {
                self.cold_reads.for_flush.push(*parked);
                self.flush_soon();
            }
            Some(ReadNeed::ColdSlices) => self.cold_reads.for_slices.push(*parked),
        }
    }

    fn ask(&mut self, requester: Requester, question: ReadRequest) {
        let id = self.cold_reads.next;
        self.cold_reads.next += 1;
        self.cold_reads.reads.push(ColdRead { id, view: std::sync::Arc::clone(&self.cold.view), question });
        self.cold_reads.requesters.insert(id, (requester, self.cold.generation));
    }

    /// The reads to start next.
    pub(crate) fn take_reads(&mut self) -> Vec<ColdRead> {
        if self.failed.is_some() {
            return Vec::new();
        }
        for slice in std::mem::take(&mut self.cold.wanted) {
            let Some(topic) = self.topics.get_mut(&slice.topic) else { continue };
            let Some(of) = topic.slices.get_mut(&(slice.line, slice.lane)) else { continue };
            if of.asked || of.away() == 0 {
                continue;
            }
            of.asked = true;
            let (from, until) = (of.reached, self.now.at.plus(super::cold::PREFETCH_MILLIS));
            // Two rows may be on their way, and little memory is soon full.
            let (limit, bytes) = (JOBS_A_ROW, BYTES_A_ROW.min(self.settings.memory / 16));
            let ready = Some(Ready { topic: topic.name.clone(), at: self.now.at, hash: self.slots.id_hash() });
            let row = RowRequest { slices: vec![slice], from, until, limit, bytes, ready };
            self.ask(Requester::Slice { slice, from, until }, ReadRequest::Row(row));
        }
        let passing = self.cold.passing.iter_mut().filter(|(_, passing)| !passing.asked);
        let passing: Vec<(Slice, Place)> = passing
            .map(|(slice, passing)| {
                passing.asked = true;
                (*slice, passing.from)
            })
            .collect();
        for (slice, from) in passing {
            let (until, limit, bytes) = (Timestamp::MAX, JOBS_A_ROW, BYTES_A_ROW);
            let row = RowRequest { slices: vec![slice], from, until, limit, bytes, ready: None };
            self.ask(Requester::Passage(slice), ReadRequest::Row(row));
        }
        std::mem::take(&mut self.cold_reads.reads)
    }

    /// A read has ended. If it is of use, [`Engine::use_answer`] is to be called.
    pub(crate) fn answered(&mut self, id: ReadId, answered: ReadOutcome) -> bool {
        let Some((requester, generation)) = self.cold_reads.requesters.remove(&id) else { return false };
        if self.failed.is_some() {
            return false;
        }
        let damaged = answered.bad.first().cloned();
        self.note_bad(answered.bad);
        // A job that is asked for by name may be just the one that cannot be read: it is not said to be gone.
        let requester = match (requester, damaged) {
            (Requester::Command(parked, ReadKind::Jobs(..)), Some(detail)) => {
                parked.command.refuse(StoreError::Unreadable { detail: detail.told });
                return false;
            }
            (requester, _) => requester,
        };
        if let Some(why) = answered.failed.filter(|_| !sim_bugs::is(Bug::UnreadIsNothing)) {
            self.failed_to_read(requester, why);
            return false;
        }
        let current = generation == self.cold.generation;
        match (requester, answered.reply) {
            (Requester::Slice { slice, from, until }, Reply::Row(row)) if current => {
                self.row_is_here(slice, from, &row, until);
                self.cold_reads.row = Some((slice, row.jobs));
            }
            (Requester::Slice { slice, .. }, _) => {
                if let Some(topic) = self.topics.get_mut(&slice.topic)
                    && let Some(of) = topic.slices.get_mut(&(slice.line, slice.lane))
                {
                    of.asked = false;
                }
                self.cold.wanted.insert(slice);
            }
            (Requester::Passage(slice), Reply::Row(row)) if current => self.pass_row(slice, row),
            (Requester::Passage(slice), _) => {
                if let Some(passing) = self.cold.passing.get_mut(&slice) {
                    passing.asked = false;
                }
            }
            (Requester::Command(mut parked, what), reply) => {
                if current {
                    self.learn(&mut parked.known, reply, what);
                }
                self.attempt_again(parked);
            }
        }
        true
    }

    /// Loads what was read, and tries those again who waited for it.
    pub(crate) fn use_answer(&mut self) {
        if let Some((slice, jobs)) = self.cold_reads.row.take() {
            self.load_row(slice, jobs);
        }
        self.retry_for_slices();
        self.serve();
    }

    /// Tries puts again that wait for memory, if there is some.
    pub(crate) fn retry_for_room(&mut self) {
        if self.cold_reads.for_room.is_empty() || self.puts_wait() {
            return;
        }
        for parked in std::mem::take(&mut self.cold_reads.for_room) {
            self.attempt_again(Box::new(parked));
        }
    }

    /// Tries commands again that wait for rows of slices.
    pub(super) fn retry_for_slices(&mut self) {
        for parked in std::mem::take(&mut self.cold_reads.for_slices) {
            self.attempt_again(Box::new(parked));
        }
    }

    /// Tries commands again that wait for a flush.
    pub(super) fn retry_for_flush(&mut self) {
        for parked in std::mem::take(&mut self.cold_reads.for_flush) {
            self.attempt_again(Box::new(parked));
        }
        self.retry_for_slices();
        self.serve();
    }

    fn learn(&mut self, known: &mut ReadState, reply: Reply, what: ReadKind) {
        match (what, reply) {
            (ReadKind::Jobs(ids, numbers), Reply::Found(jobs)) => {
                let found: BTreeSet<_> = jobs.iter().map(|job| (job.topic, job.id())).collect();
                let is_found = |(topic, id): &(TopicId, JobId)| found.contains(&(*topic, id.as_str()));
                let (there, absent): (Vec<_>, Vec<_>) = ids.into_iter().partition(is_found);
                known.looked_up.extend(there);
                known.absent.extend(absent);
                known.numbers_looked_up.extend(numbers);
                known.is_complete = true;
                for job in jobs {
                    self.load_for(known, job);
                }
            }
            (ReadKind::Stretch(name, only), Reply::Row(row)) => self.learn_range(known, row, name, only.as_deref()),
            (ReadKind::Purge, Reply::Row(row)) => {
                for job in row.jobs {
                    if let Some(index) = self.load(job) {
                        self.log_gone(index, GoneCause::Purge);
                        self.remove(index);
                        known.purged += 1;
                    }
                }
                known.purged_until = row.through.map_or(known.purged_until, after_place);
                known.purged_all = row.through.is_none();
            }
            (ReadKind::Ranks(asked), Reply::Ranks(ranks)) => known.ranks.extend(asked.into_iter().zip(ranks)),
            _ => unreachable!("an answer is to its question"),
        }
    }

    fn learn_range(&mut self, known: &mut ReadState, row: Row, name: RangeName, only: Option<&RedriveTopic>) {
        let at = known.ranges.iter().position(|range| range.name == name).unwrap_or_else(|| {
            known.ranges.push(Stretch { name, through: None, bytes: 0 });
            known.ranges.len() - 1
        });
        known.ranges[at].through = row.through;
        for job in row.jobs {
            let Form::Record(record, _) = &job.form else { unreachable!("none of them is about to be handed out") };
            if only.is_none_or(|redrive| self.is_meant(record, name.topic, redrive)) {
                known.ranges[at].bytes += record.len();
                self.load_for(known, job);
            }
        }
    }

    fn is_meant(&self, record: &[u8], topic: TopicId, redrive: &RedriveTopic) -> bool {
        let Some(topic) = self.topics.get(&topic) else { return false };
        let job = crate::format::record::decode_seen(record, &topic.name);
        matches!(&job.phase, Phase::Buried(burial) if redrive.matches(&job.id, &burial.reason))
    }

    fn load_for(&mut self, known: &mut ReadState, job: Shown) {
        if let Some(index) = self.load(job) {
            known.loaded.push((index, self.slots.get(index).meta.number));
        }
    }

    /// Evicts jobs that were loaded for finished commands.
    pub(super) fn drop_done_with(&mut self) {
        if self.cold_reads.done_with.is_empty() {
            return;
        }
        let idle = self.cold_reads.is_idle();
        if !idle && self.cold_reads.done_with.len() < EVICT_AT_LOADED {
            return;
        }
        if !idle {
            self.cold.dropped += 1;
        }
        for (index, number) in std::mem::take(&mut self.cold_reads.done_with) {
            let slot = self.slots.peek(index);
            if slot.is_some_and(|slot| slot.meta.number == number && slot.home == Home::COLD) && self.rests(index) {
                self.evict(index);
            }
        }
    }
}
