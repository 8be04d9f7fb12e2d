//! Bugs that can be planted, so that the simulation can show that it finds them.
//!
//! Without the feature `planted`, which only `dwell-sim` asks for, [`is`] is a constant and nothing of this is there: not in
//! a server that is built by itself (`cargo build --package dwell`). One that is built together with the simulation, as the
//! tests do, has them and plants the one that `DWELL_PLANTED_BUG` names, for `dwell-torture`.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

bugs! {
    /// Frames are written and not synced.
    SkippedSync,
    /// Answers leave before what they saw is durable.
    AnswersBeforeSync,
    /// The topics go to disk before the frame with the last changes to them.
    TopicsBeforeJournal,
    /// A new segment's name is not made durable.
    NamesNotSynced,
    /// What a start has read is not synced before it is built upon.
    StartNotSynced,
    /// What a start has read is synced but not written again.
    EndNotWrittenAgain,
    /// A torn frame that was never acknowledged stops the start.
    FalseAlarm,
    /// What a frame says of segments that have been freed counts as missing.
    FreedCountsAsMissing,
    /// A segment is freed while it has jobs that are nowhere else.
    FreedTooEarly,
    /// A failed sync is taken for a good one.
    FailureIgnored,
    /// Any token of a job settles its lease.
    StaleTokenAccepted,
    /// What is due in a millisecond is due.
    EarlyByOne,
    /// Delays count from the millisecond that has begun, not from the next.
    DelaysRoundedDown,
    /// Leases are not logged.
    LeaseNotLogged,
    /// Attempts count when they fail, not when they begin.
    AttemptAtNack,
    /// Leases end while the store is down.
    NoGrace,
    /// A cancelled job that was ready stays.
    CancelLies,
    /// Pauses are not logged.
    PauseNotLogged,
    /// Consumers that wait are not told of new jobs.
    LostWakeUp,
    /// Who came last is served first.
    LastComeFirstServed,
    /// Consumers wait for longer than they said.
    WaitsForEver,
    /// Puts are taken whatever memory jobs take.
    BudgetIgnored,
    /// A put's delay becomes an instant by the wall clock, before the store takes it.
    DelayAtTheEdge,
    /// Leases that nobody received are kept until they run out.
    LostLeaseKept,
    /// Who waits and has gone away still gets jobs.
    GoneStillServed,
    /// Couriers get jobs of lines they do not want.
    BlockedLinesIgnored,
    /// One line takes a courier's whole answer.
    SharesIgnored,
    /// Consumers get jobs of a topic that is pushed.
    PushedIsPulled,
    /// What is handed out does not count against `max_rate`.
    RateNotCounted,
    /// Numbers and sequences go on after the last that was read back.
    ReservesIgnored,
    /// Time begins with the wall clock, wherever it was before.
    MarkIgnored,
    /// What the topics' file has counted is counted again from the journal.
    TotalsCountedTwice,
    /// A stale copy in the cold tier is loaded as if it were true.
    StaleCopyLoaded,
    /// A flush does not note which copies are stale.
    TombstonesDropped,
    /// What is dropped from memory is thought to be there still.
    DroppedIsThere,
    /// Runs are written and not synced.
    RunNotSynced,
    /// What was changed on its way to the cold tier counts as being there as it is.
    ChangedLandsToo,
    /// What the disk does not give is taken for not being there.
    UnreadIsNothing,
    /// A flush that is done again after it failed takes all that it had before, and frees less.
    FlushFailedTwice,
    /// Two flushes may have one sequence, by which records name them.
    FlushesShareSequence,
    /// Topics may be written over the file that the manifest names, as they were when flushes had no sequence of their own.
    TopicsShareName,
    /// Of jobs that share a lane only as many are looked at as are asked for.
    SharedLaneUnread,
}

impl Bug {
    /// Whether only a store with a cold tier can show it.
    pub fn is_of_the_cold_tier(self) -> bool {
        Self::ALL.iter().position(|bug| *bug == Self::StaleCopyLoaded) <= Self::ALL.iter().position(|bug| *bug == self)
    }
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug into everything that runs on this thread, or removes it.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// The bug that the environment plants into the whole process.
#[cfg(feature = "planted")]
static OF_THE_PROCESS: std::sync::LazyLock<Option<Bug>> = std::sync::LazyLock::new(|| {
    let name = std::env::var("DWELL_PLANTED_BUG").ok()?;
    Some(*Bug::ALL.iter().find(|bug| format!("{bug:?}") == name).expect("DWELL_PLANTED_BUG names a bug"))
});

/// Whether this bug is there.
#[cfg(feature = "planted")]
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.get().or(*OF_THE_PROCESS) == Some(bug)
}

/// Whether this bug is there: no.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
