//! Commands that need something from the shelf: they wait until it is here, and are then looked at again.
//!
//! A command says what it misses. If it misses nothing it is carried out at once, on memory alone. Otherwise what it
//! misses is asked for, brought into memory, and dropped again once the command has been carried out. Meanwhile other
//! commands go on; whatever they change, the command sees when its turn comes.

mod missing;
mod unread;

use std::collections::BTreeSet;

use dwell_core::{JobId, Number, Phase, RedriveTopic, StoreError, Timestamp};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

use super::slots::{Index, SHELF};
use super::topic::{Place, Topic};
use super::{Command, Engine};
use crate::format::key::{Slice, after_place, first_place};
use crate::format::record::{GoneCause, TopicId};
use crate::planted::{self, Bug};
use crate::shelf::View;
use crate::shelf::read::{Answered, Form, Question, Ready, Reply, Row, RowQuestion, Shown};

/// Ready jobs of a line that are enough in memory, where more are on the shelf.
pub(super) const WINDOW: usize = 4_096;

/// How many jobs, and bytes of them, are brought at a time.
const JOBS_A_ROW: usize = 1_024;
const BYTES_A_ROW: usize = 512 << 10;

/// Jobs that were brought for commands and are no longer needed, at which they are dropped though others wait.
const MANY: usize = 16_384;

/// Bytes of a stretch that are enough: more than one answer takes.
const STRETCH_BYTES: usize = 16 << 20;

/// Names an ask.
pub(crate) type AskId = u64;

/// Something to be read for the engine.
pub(crate) struct Ask {
    pub(crate) id: AskId,
    pub(crate) view: std::sync::Arc<View>,
    pub(crate) question: Question,
}

/// A command that waits for the shelf.
pub(super) struct Parked {
    command: Command,
    known: Known,
    /// How often the disk did not give what it needs.
    failures: u32,
}

/// What is known for a command beside what is in memory.
pub(super) struct Known {
    /// As of this view, and with nothing dropped since.
    generation: u64,
    dropped: u64,
    /// The time when it was first looked at.
    pub(super) at: Timestamp,
    /// What is not in memory is not on the shelf either.
    looked_up: BTreeSet<(TopicId, JobId)>,
    numbers_looked_up: BTreeSet<Number>,
    /// What is not on the shelf at all: whatever is dropped, it does not get there by that.
    absent: BTreeSet<(TopicId, JobId)>,
    /// All jobs that it names have been looked up.
    is_complete: bool,
    /// Stretches of which everything is in memory.
    stretches: Vec<Stretch>,
    /// How many are due by a time.
    pub(super) ranks: HashMap<(Slice, Timestamp), u64, FastHash>,
    /// How many jobs it has purged that were on the shelf only; up to where, and whether those were all.
    pub(super) purged: u64,
    purged_until: Place,
    purged_all: bool,
    /// What was brought for it.
    brought: Vec<(Index, Number)>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            generation: 0,
            dropped: 0,
            at: Timestamp::EPOCH,
            looked_up: BTreeSet::new(),
            numbers_looked_up: BTreeSet::new(),
            absent: BTreeSet::new(),
            is_complete: false,
            stretches: Vec::new(),
            ranks: HashMap::default(),
            purged: 0,
            purged_until: first_place(),
            purged_all: false,
            brought: Vec::new(),
        }
    }
}

impl Known {
    /// What is missing of a stretch that begins at `from` until there are so many from `begin` on.
    fn missing(&self, topic: &Topic, buried: bool, from: Place, begin: Place, need: usize) -> Option<Missing> {
        if topic.away(buried) == 0 {
            return None;
        }
        let name = StretchName { topic: topic.id, buried, from };
        let stretch = self.stretches.iter().find(|stretch| stretch.name == name);
        let after = match stretch {
            None => None,
            Some(stretch) => {
                let through = stretch.through?;
                let places = if buried { &topic.buried } else { &topic.waiting };
                let there = if begin <= through { places.count(begin..=through, need) } else { 0 };
                if there >= need || stretch.bytes >= STRETCH_BYTES {
                    return None;
                }
                Some(through)
            }
        };
        Some(Missing::Stretch { name, after, limit: need, only: None })
    }
}

/// A stretch of a topic's waiting or buried jobs.
struct Stretch {
    name: StretchName,
    /// Up to here, this one included; without one, to the end.
    through: Option<Place>,
    /// Bytes of what was brought.
    bytes: usize,
}

/// What a command misses.
enum Missing {
    /// These jobs.
    Jobs(Vec<(TopicId, JobId)>, Vec<Number>),
    /// How many are due by a time.
    Ranks(Vec<(Slice, Timestamp)>),
    /// Jobs of a stretch, from after a place on; only those that are meant by this redrive, if there is one.
    Stretch { name: StretchName, after: Option<Place>, limit: usize, only: Option<Box<RedriveTopic>> },
    /// Jobs that are to be purged, a few at a time.
    Purge { topic: TopicId, buried: bool, from: Place, until: Timestamp },
    /// The next fold.
    Fold,
    /// What was wanted of slices.
    Slices,
}

/// Who waits for an answer.
enum Asker {
    /// A command, for this.
    Command(Box<Parked>, What),
    /// Somebody who waits for jobs of this slice.
    Slice { slice: Slice, from: Place, until: Timestamp },
    /// Time, which has done something to jobs of this slice.
    Passage(Slice),
}

/// What has been asked for a command.
enum What {
    Jobs(Vec<(TopicId, JobId)>, Vec<Number>),
    Stretch(StretchName, Option<Box<RedriveTopic>>),
    Ranks(Vec<(Slice, Timestamp)>),
    Purge,
}

/// Which stretch: of a topic's waiting or buried jobs, from where on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StretchName {
    topic: TopicId,
    buried: bool,
    from: Place,
}

/// All that waits for the shelf.
#[derive(Default)]
pub(super) struct Asking {
    next: AskId,
    asks: Vec<Ask>,
    askers: HashMap<AskId, (Asker, u64), FastHash>,
    /// Commands that wait for a fold.
    pub(super) for_fold: Vec<Parked>,
    /// Commands that wait for slices that have been asked for.
    for_slices: Vec<Parked>,
    /// Puts that have all they need but room.
    for_room: Vec<Parked>,
    /// What is known for the command that is being carried out.
    pub(super) known: Known,
    /// What was brought for commands that are done.
    done_with: Vec<(Index, Number)>,
    /// Jobs of a slice that are here, for [`Engine::use_answer`].
    row: Option<(Slice, Vec<Shown>)>,
}

impl Asking {
    /// Whether anything is under way.
    pub(super) fn is_idle(&self) -> bool {
        let parked = self.for_fold.is_empty() && self.for_slices.is_empty() && self.for_room.is_empty();
        self.askers.is_empty() && parked
    }

    /// Answers all commands that wait with an error.
    pub(super) fn refuse(&mut self, error: &StoreError) {
        let askers = self.askers.drain().filter_map(|(_, (asker, _))| match asker {
            Asker::Command(parked, _) => Some(*parked),
            Asker::Slice { .. } | Asker::Passage(_) => None,
        });
        let parked = self.for_fold.drain(..).chain(self.for_slices.drain(..)).chain(self.for_room.drain(..));
        let all = askers.chain(parked);
        all.for_each(|parked| parked.command.refuse(error.clone()));
        self.asks.clear();
    }
}

impl Engine {
    /// Carries out a command, now or when what it needs is in memory.
    pub(super) fn attempt(&mut self, command: Command) {
        if self.shelf.view.runs.is_empty() && self.shelf.gone.is_empty() && !self.folding.is_flying() {
            return command.run(self);
        }
        let known = Known { at: self.now.at, ..Known::default() };
        self.attempt_again(Box::new(Parked { command, known, failures: 0 }));
    }

    fn attempt_again(&mut self, mut parked: Box<Parked>) {
        let known = &mut parked.known;
        if (known.generation, known.dropped) != (self.shelf.generation, self.shelf.dropped) {
            let absent = if known.generation == self.shelf.generation {
                std::mem::take(&mut known.absent)
            } else {
                BTreeSet::new()
            };
            let (brought, purged) = (std::mem::take(&mut known.brought), known.purged);
            let (generation, dropped, at) = (self.shelf.generation, self.shelf.dropped, self.now.at);
            *known = Known { generation, dropped, at, absent, purged, brought, ..Known::default() };
        }
        match parked.command.missing(self, &parked.known) {
            // There was room when it came; others have taken it while the shelf was asked.
            None if matches!(parked.command, Command::Put { .. }) && self.is_pressed() => {
                self.asking.for_room.push(*parked);
            }
            None => {
                let Parked { command, mut known, .. } = *parked;
                self.asking.done_with.append(&mut known.brought);
                self.asking.known = known;
                command.run(self);
                self.asking.known = Known::default();
            }
            Some(Missing::Jobs(ids, numbers)) => {
                let question = Question::Find { ids: ids.clone(), numbers: numbers.clone() };
                self.ask(Asker::Command(parked, What::Jobs(ids, numbers)), question);
            }
            Some(Missing::Ranks(ranks)) => {
                let question = Question::Ranks(ranks.clone());
                self.ask(Asker::Command(parked, What::Ranks(ranks)), question);
            }
            Some(Missing::Stretch { name, after, limit, only }) => {
                let slices = self.topics[&name.topic].shelved(name.buried).map(|(slice, _)| slice).collect();
                let from = after.map_or(name.from, after_place);
                let (limit, bytes) = (limit.clamp(16, 2_048), STRETCH_BYTES);
                let row = RowQuestion { slices, from, until: Timestamp::MAX, limit, bytes, ready: None };
                self.ask(Asker::Command(parked, What::Stretch(name, only)), Question::Row(row));
            }
            Some(Missing::Purge { topic, buried, from, until }) => {
                let slices = self.topics[&topic].shelved(buried).map(|(slice, _)| slice).collect();
                let row = RowQuestion { slices, from, until, limit: JOBS_A_ROW, bytes: BYTES_A_ROW, ready: None };
                self.ask(Asker::Command(parked, What::Purge), Question::Row(row));
            }
            Some(Missing::Fold) => {
                self.asking.for_fold.push(*parked);
                self.fold_soon();
            }
            Some(Missing::Slices) => self.asking.for_slices.push(*parked),
        }
    }

    fn ask(&mut self, asker: Asker, question: Question) {
        let id = self.asking.next;
        self.asking.next += 1;
        self.asking.asks.push(Ask { id, view: std::sync::Arc::clone(&self.shelf.view), question });
        self.asking.askers.insert(id, (asker, self.shelf.generation));
    }

    /// What is to be read next.
    pub(crate) fn take_asks(&mut self) -> Vec<Ask> {
        if self.failed.is_some() {
            return Vec::new();
        }
        for slice in std::mem::take(&mut self.shelf.wanted) {
            let Some(topic) = self.topics.get_mut(&slice.topic) else { continue };
            let Some(of) = topic.slices.get_mut(&(slice.line, slice.lane)) else { continue };
            if of.asked || of.away() == 0 {
                continue;
            }
            of.asked = true;
            let (from, until) = (of.reached, self.now.at.plus(super::shelf::AHEAD));
            // Two rows may be on their way, and little memory is soon full.
            let (limit, bytes) = (JOBS_A_ROW, BYTES_A_ROW.min(self.settings.memory / 16));
            let ready = Some(Ready { topic: topic.name.clone(), at: self.now.at, hash: self.slots.id_hash() });
            let row = RowQuestion { slices: vec![slice], from, until, limit, bytes, ready };
            self.ask(Asker::Slice { slice, from, until }, Question::Row(row));
        }
        let passing = self.shelf.passing.iter_mut().filter(|(_, passing)| !passing.asked);
        let passing: Vec<(Slice, Place)> = passing
            .map(|(slice, passing)| {
                passing.asked = true;
                (*slice, passing.from)
            })
            .collect();
        for (slice, from) in passing {
            let (until, limit, bytes) = (Timestamp::MAX, JOBS_A_ROW, BYTES_A_ROW);
            let row = RowQuestion { slices: vec![slice], from, until, limit, bytes, ready: None };
            self.ask(Asker::Passage(slice), Question::Row(row));
        }
        std::mem::take(&mut self.asking.asks)
    }

    /// Something has been read. Whether it is of use: then [`Engine::use_answer`] is to be called.
    pub(crate) fn answered(&mut self, id: AskId, answered: Answered) -> bool {
        let Some((asker, generation)) = self.asking.askers.remove(&id) else { return false };
        if self.failed.is_some() {
            return false;
        }
        let damaged = answered.bad.first().cloned();
        self.note_bad(answered.bad);
        // A job that is asked for by name may be just the one that cannot be read: it is not said to be gone.
        let asker = match (asker, damaged) {
            (Asker::Command(parked, What::Jobs(..)), Some(detail)) => {
                parked.command.refuse(StoreError::Unreadable { detail: detail.told });
                return false;
            }
            (asker, _) => asker,
        };
        if let Some(why) = answered.failed.filter(|_| !planted::is(Bug::UnreadIsNothing)) {
            self.failed_to_read(asker, why);
            return false;
        }
        let current = generation == self.shelf.generation;
        match (asker, answered.reply) {
            (Asker::Slice { slice, from, until }, Reply::Row(row)) if current => {
                self.row_is_here(slice, from, &row, until);
                self.asking.row = Some((slice, row.jobs));
            }
            (Asker::Slice { slice, .. }, _) => {
                if let Some(topic) = self.topics.get_mut(&slice.topic)
                    && let Some(of) = topic.slices.get_mut(&(slice.line, slice.lane))
                {
                    of.asked = false;
                }
                self.shelf.wanted.insert(slice);
            }
            (Asker::Passage(slice), Reply::Row(row)) if current => self.pass_row(slice, row),
            (Asker::Passage(slice), _) => {
                if let Some(passing) = self.shelf.passing.get_mut(&slice) {
                    passing.asked = false;
                }
            }
            (Asker::Command(mut parked, what), reply) => {
                if current {
                    self.learn(&mut parked.known, reply, what);
                }
                self.attempt_again(parked);
            }
        }
        true
    }

    /// Gives what has been read to those who waited for it.
    pub(crate) fn use_answer(&mut self) {
        if let Some((slice, jobs)) = self.asking.row.take() {
            self.bring_row(slice, jobs);
        }
        self.retry_for_slices();
        self.serve();
    }

    /// Looks again at puts that wait for room, if there is some.
    pub(crate) fn retry_for_room(&mut self) {
        if self.asking.for_room.is_empty() || self.is_pressed() {
            return;
        }
        for parked in std::mem::take(&mut self.asking.for_room) {
            self.attempt_again(Box::new(parked));
        }
    }

    /// Looks again at commands that wait for slices.
    pub(super) fn retry_for_slices(&mut self) {
        for parked in std::mem::take(&mut self.asking.for_slices) {
            self.attempt_again(Box::new(parked));
        }
    }

    /// Looks again at commands that waited for a fold.
    pub(super) fn retry_for_fold(&mut self) {
        for parked in std::mem::take(&mut self.asking.for_fold) {
            self.attempt_again(Box::new(parked));
        }
        self.retry_for_slices();
        self.serve();
    }

    fn learn(&mut self, known: &mut Known, reply: Reply, what: What) {
        match (what, reply) {
            (What::Jobs(ids, numbers), Reply::Found(jobs)) => {
                let found: BTreeSet<_> = jobs.iter().map(|job| (job.topic, job.id())).collect();
                let is_found = |(topic, id): &(TopicId, JobId)| found.contains(&(*topic, id.as_str()));
                let (there, absent): (Vec<_>, Vec<_>) = ids.into_iter().partition(is_found);
                known.looked_up.extend(there);
                known.absent.extend(absent);
                known.numbers_looked_up.extend(numbers);
                known.is_complete = true;
                for job in jobs {
                    self.bring_for(known, job);
                }
            }
            (What::Stretch(name, only), Reply::Row(row)) => self.learn_stretch(known, row, name, only.as_deref()),
            (What::Purge, Reply::Row(row)) => {
                for job in row.jobs {
                    if let Some(index) = self.bring(job) {
                        self.log_gone(index, GoneCause::Purge);
                        self.remove(index);
                        known.purged += 1;
                    }
                }
                known.purged_until = row.through.map_or(known.purged_until, after_place);
                known.purged_all = row.through.is_none();
            }
            (What::Ranks(asked), Reply::Ranks(ranks)) => known.ranks.extend(asked.into_iter().zip(ranks)),
            _ => unreachable!("an answer is to its question"),
        }
    }

    fn learn_stretch(&mut self, known: &mut Known, row: Row, name: StretchName, only: Option<&RedriveTopic>) {
        let at = known.stretches.iter().position(|stretch| stretch.name == name).unwrap_or_else(|| {
            known.stretches.push(Stretch { name, through: None, bytes: 0 });
            known.stretches.len() - 1
        });
        known.stretches[at].through = row.through;
        for job in row.jobs {
            let Form::Record(record, _) = &job.form else { unreachable!("none of them is about to be handed out") };
            if only.is_none_or(|redrive| self.is_meant(record, name.topic, redrive)) {
                known.stretches[at].bytes += record.len();
                self.bring_for(known, job);
            }
        }
    }

    fn is_meant(&self, record: &[u8], topic: TopicId, redrive: &RedriveTopic) -> bool {
        let Some(topic) = self.topics.get(&topic) else { return false };
        let job = crate::format::record::decode_seen(record, &topic.name);
        matches!(&job.phase, Phase::Buried(burial) if redrive.matches(&job.id, &burial.reason))
    }

    fn bring_for(&mut self, known: &mut Known, job: Shown) {
        if let Some(index) = self.bring(job) {
            known.brought.push((index, self.slots.get(index).brief.number));
        }
    }

    /// Drops what was brought for commands that are done.
    pub(super) fn drop_done_with(&mut self) {
        if self.asking.done_with.is_empty() {
            return;
        }
        let idle = self.asking.is_idle();
        if !idle && self.asking.done_with.len() < MANY {
            return;
        }
        if !idle {
            self.shelf.dropped += 1;
        }
        for (index, number) in std::mem::take(&mut self.asking.done_with) {
            let slot = self.slots.peek(index);
            if slot.is_some_and(|slot| slot.brief.number == number && slot.home == SHELF) && self.rests(index) {
                self.drop_near(index);
            }
        }
    }
}
