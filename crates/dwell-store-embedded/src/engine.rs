//! The engine: it owns all state and does no I/O.
//!
//! The engine is a state machine. The runner gives it commands and the time. It changes memory at once, appends records to
//! the current batch and holds each answer until that batch is durable (group commit). The runner takes batches out as
//! frames ([`Engine::take_frame`]), has the journal thread write and sync them, and reports [`Engine::synced`] or
//! [`Engine::fail`]. The same calls in the same order give the same frames and the same answers, so the simulator runs it
//! unchanged.
//!
//! ```text
//!  command ─▶ tick(now): timers     ─▶ batch of records ─▶ frame ─▶ (write, sync) ─▶ synced ─▶ answers leave
//!             apply: memory changes     held answers ───────────────────────────────────┘
//!             serve: waiting consumers
//! ```

mod answers;
mod arena;
mod arena_compaction;
mod audit;
mod batch;
mod cold;
mod cold_reads;
mod command;
mod done;
mod due_histogram;
mod due_index;
mod flush;
mod id_table;
mod index;
mod job_commands;
mod leases;
mod manifest_delta;
mod pages;
mod queries;
mod recount;
mod replay;
mod slots;
mod start_sort;
mod timers;
mod tombstones;
mod topic;
mod topic_commands;
mod totals;
mod transition;
mod waiters;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Defaults, Sizes, StoreError, Timestamp, TopicName};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;
use timing_wheel::TimingWheel;

pub(crate) use audit::{Audit, Audited};
pub(crate) use batch::BatchFrame;
pub(crate) use cold_reads::{ColdRead, ReadId};
pub(crate) use command::Command;
pub(crate) use due_histogram::minute;
pub(crate) use flush::Admission;
pub(crate) use manifest_delta::ManifestDelta;
pub(crate) use recount::Recounted;
pub(crate) use replay::{JobBytes, ReplayContext, ReplayError, ScannedJob};
pub(crate) use slots::{IdHash, RecordLocation};
pub(crate) use start_sort::SortedJobs;

use self::answers::Answers;
use self::arena_compaction::Moving;
use self::batch::Batch;
use self::cold::ColdTier;
use self::cold_reads::ColdReads;
use self::done::DoneJobs;
use self::due_histogram::DueHistogram;
use self::flush::FlushState;
use self::replay::Replaying;
use self::slots::Slots;
use self::timers::Timer;
use self::topic::Topic;
use self::waiters::Waiters;
use crate::cold::LiveRun;
use crate::dice::Dice;
use crate::disk_space::Room;
use crate::format::record::TopicId;
use crate::gauges::Gauges;
use crate::sim_bugs::{self, Bug};

/// How many timers one turn deals with before it looks at commands again.
const TIMERS_A_TURN: usize = 4_096;

/// What an engine is told when it is made.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What holds where neither job nor topic says.
    pub(crate) defaults: Defaults,
    /// How many topics there may be.
    pub(crate) max_topics: usize,
    /// Bytes of memory jobs may take.
    pub(crate) memory: usize,
    /// Bytes of one journal segment.
    pub(crate) segment: u64,
    /// Bytes of journal that are enough where there is a cold tier.
    pub(crate) tail: u64,
    /// Whether jobs that wait for long leave memory.
    pub(crate) cold_tier: bool,
    /// How many priorities of a topic have a lane of their own in the cold tier.
    pub(crate) lanes: usize,
    /// What all chance comes from; the system's own if there is none.
    pub(crate) seed: Option<u64>,
}

/// Where a start takes up what the last one left off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// This start's own number.
    pub(crate) epoch: u64,
    /// The segment this start writes to first.
    pub(crate) segment: u64,
    /// Everything up to this sequence was there when it began.
    pub(crate) durable: u64,
    /// The last sequence in the journal: less than that where all frames of what is left of it were lost.
    pub(crate) read: u64,
    /// The first sequence it may use.
    pub(crate) sequence: u64,
    /// The first job number it may use.
    pub(crate) number: u64,
    /// The first topic id it may use.
    pub(crate) topic: u32,
}

/// What time it is: on the store's timeline, and on the clock that waiting consumers go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The timeline, rounded down: what is due by then is due.
    pub(crate) at: Timestamp,
    /// The timeline, rounded up: what delays count from.
    pub(crate) up: Timestamp,
    /// Real time, since some beginning.
    pub(crate) real: Duration,
}

impl Now {
    /// What the rules need to know of it.
    fn core(self) -> dwell_core::Now {
        let up = if sim_bugs::is(Bug::DelaysRoundedDown) { self.at } else { self.up };
        dwell_core::Now { at: self.at, up }
    }
}

/// All that the store knows, and what it does.
pub(crate) struct Engine {
    settings: Settings,
    /// What is measured; nothing goes by it.
    pub(crate) gauges: Arc<Gauges>,
    now: Now,
    slots: Slots,
    replaying: Replaying,
    /// Topics with ready jobs for couriers.
    pushing: BTreeSet<TopicId>,
    done: DoneJobs,
    topics: HashMap<TopicId, Topic, FastHash>,
    names: HashMap<TopicName, TopicId, FastHash>,
    sorted_names: BTreeSet<TopicName>,
    /// When the waiting jobs of all topics are due.
    minutes: DueHistogram,
    next_topic: u32,
    next_number: u64,
    wheel: TimingWheel<Timer>,
    waiters: Waiters,
    batch: Batch,
    answers: Answers,
    cold: ColdTier,
    cold_reads: ColdReads,
    flush: FlushState,
    moving: Moving,
    failed: Option<StoreError>,
    closing: bool,
    room: Room,
    swept_at: Duration,
    dice: Dice,
    /// What jobs took whenever someone needed room; simulators ask.
    #[cfg(feature = "planted")]
    pub(crate) weighed: Vec<usize>,
}

impl Engine {
    /// An engine without jobs, to be replayed into and then begun.
    pub(crate) fn new(settings: Settings) -> Self {
        let epoch = Timestamp::EPOCH;
        let origin = Origin { epoch: 0, segment: 0, durable: 0, read: 0, sequence: 1, number: 1, topic: 1 };
        Self {
            now: Now { at: epoch, up: epoch, real: Duration::ZERO },
            gauges: Arc::default(),
            slots: Slots::default(),
            replaying: Replaying::default(),
            pushing: BTreeSet::new(),
            done: DoneJobs::default(),
            topics: HashMap::default(),
            names: HashMap::default(),
            sorted_names: BTreeSet::new(),
            minutes: DueHistogram::default(),
            next_topic: origin.topic,
            next_number: origin.number,
            wheel: TimingWheel::new(0),
            waiters: Waiters::default(),
            batch: Batch::new(origin, settings.segment),
            answers: Answers::default(),
            cold: ColdTier::default(),
            cold_reads: ColdReads::default(),
            flush: FlushState::new(0, 0),
            moving: Moving::default(),
            failed: None,
            closing: false,
            room: Room::default(),
            swept_at: Duration::ZERO,
            dice: Dice::new(settings.seed),
            #[cfg(feature = "planted")]
            weighed: Vec::new(),
            settings,
        }
    }

    /// Takes up where the last run left off, once everything has been replayed and put in order.
    pub(crate) fn begin(&mut self, origin: Origin, now: Now, first: (u64, u64), jobs: [SortedJobs; 2]) {
        self.now = now;
        self.swept_at = now.real;
        self.next_topic = self.next_topic.max(origin.topic);
        self.next_number = self.next_number.max(origin.number);
        self.batch = Batch::new(origin, self.settings.segment);
        self.batch.began_before(std::mem::take(&mut self.replaying.starts).into_iter());
        self.replaying.passed_over = Vec::new();
        self.wheel = TimingWheel::new(now.at.as_millis());
        let (first_segment, flushed) = first;
        self.flush = FlushState::new(first_segment, flushed);
        self.replayed(jobs);
    }

    /// Moves time on and does what is due. Whether there is more to do at this time.
    pub(crate) fn tick(&mut self, now: Now) -> bool {
        self.now = Now { at: self.now.at.max(now.at), up: self.now.up.max(now.up), real: now.real };
        if self.failed.is_some() {
            return false;
        }
        let more = self.run_timers(TIMERS_A_TURN);
        self.sweep();
        let jobs = self.jobs_a_turn();
        self.flush_step(jobs);
        self.drop_done_with();
        self.move_step(jobs);
        more
    }

    /// Carries out one command.
    pub(crate) fn apply(&mut self, command: Command) {
        if let Some(error) = &self.failed {
            return command.refuse(error.clone());
        }
        if self.closing {
            return command.refuse(StoreError::Closed);
        }
        self.attempt(command);
    }

    /// When something is to be done next even if nobody calls: at a time of the timeline, or of real time.
    pub(crate) fn next_wake(&self) -> (Option<Timestamp>, Option<Duration>) {
        if self.failed.is_some() {
            return (None, None);
        }
        let timer = self.wheel.next_deadline().and_then(|at| Timestamp::from_millis(at).ok());
        (timer, self.waiters.next_deadline())
    }

    /// The next frame to write, if there is anything in it and the one before it is durable.
    pub(crate) fn take_frame(&mut self) -> Option<BatchFrame> {
        if self.failed.is_some() {
            return None;
        }
        self.batch.take(self.now.at)
    }

    /// The frame that was taken last is durable: answers that waited for it leave.
    pub(crate) fn synced(&mut self, on_disk: bool) {
        let durable = self.batch.synced(on_disk);
        let lost = self.answers.release(durable);
        if !sim_bugs::is(Bug::LostLeaseKept) {
            self.give_back(lost);
        }
    }

    /// The journal failed: nothing more is answered, nothing more happens.
    pub(crate) fn fail(&mut self, detail: String) {
        let error = StoreError::Failed { detail };
        self.answers.refuse(&error);
        self.waiters.refuse(&error);
        self.cold_reads.refuse(&error);
        self.failed = Some(error);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes no more commands and answers those who wait with nothing. What is batched is still to be written.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.cold_reads.refuse(&StoreError::Closed);
        let waiting = self.waiters.drain();
        for waiter in waiting {
            self.answers.hold_lease(self.batch.last_sequence(), waiter.answer, Vec::new());
        }
        self.answers.release(self.batch.durable());
    }

    /// What is known of the journal, for the manifest and the status.
    pub(crate) fn journal(&self) -> JournalState {
        JournalState {
            last_sequence: self.batch.last_sequence(),
            last_in_journal: self.batch.last_in_journal(),
            next_sequence: self.batch.next_sequence(),
            next_number: self.next_number,
            next_topic: self.next_topic,
            first_segment: self.flush.first_segment(),
            segment: self.batch.segment(),
            batched: self.batch.len(),
        }
    }

    /// Everything up to this sequence is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.batch.durable()
    }

    /// What time it is, rounded down and up.
    pub(crate) fn time(&self) -> (Timestamp, Timestamp) {
        (self.now.at, self.now.up)
    }

    /// Bytes of memory that jobs are reckoned to take, remembered ones too.
    pub(crate) fn weight(&self) -> usize {
        self.slots.weight() + self.done.weight()
    }

    /// Whether jobs take more memory than they may.
    fn is_full(&self) -> bool {
        self.weight() > self.settings.memory
    }

    /// Whether there is room for more.
    fn has_room(&mut self) -> bool {
        #[cfg(feature = "planted")]
        self.weighed.push(self.weight());
        // A call that was begun while there was room may take a little more than there is: the cold tier will have it.
        let beyond = if self.settings.cold_tier { self.settings.memory / 4 } else { 0 };
        let room = self.weight() <= self.settings.memory + beyond;
        (room && !self.room.is_short) || sim_bugs::is(Bug::BudgetIgnored)
    }

    /// How much room the disk has.
    pub(crate) fn note_room(&mut self, room: Room) {
        self.room = room;
    }

    /// How much there is where; by runs, not by jobs or topics, so that anyone may ask now and then.
    pub(crate) fn sizes(&self) -> Sizes {
        let runs = &self.cold.view.runs;
        Sizes {
            near_jobs: self.slots.len() as u64,
            near_bytes: self.weight() as u64,
            near_limit: self.settings.memory as u64,
            shelf_jobs: runs.iter().map(LiveRun::live).sum(),
            shelf_runs: runs.len() as u64,
            shelf_bytes: runs.iter().map(|live_run| live_run.run.bytes).sum(),
            journal_segments: (self.batch.segment() + 1).saturating_sub(self.flush.first_segment()),
            disk_free: None,
        }
    }

    /// How many jobs there are, in memory or in the cold tier.
    pub(crate) fn live_jobs(&self) -> u64 {
        let away = self.topics.values().map(|topic| topic.away(false) + topic.away(true));
        self.slots.len() as u64 + away.sum::<u64>()
    }

    fn roll(&mut self) -> u64 {
        self.dice.roll()
    }
}

/// Where the journal stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalState {
    /// The last sequence given.
    pub(crate) last_sequence: u64,
    /// The last sequence that is in the journal, once everything is written.
    pub(crate) last_in_journal: u64,
    /// The sequence the next record gets.
    pub(crate) next_sequence: u64,
    /// The number the next job gets.
    pub(crate) next_number: u64,
    /// The id the next topic gets.
    pub(crate) next_topic: u32,
    /// The oldest segment that is still needed.
    pub(crate) first_segment: u64,
    /// The segment frames go to.
    pub(crate) segment: u64,
    /// Bytes that wait for the next frame.
    pub(crate) batched: usize,
}
