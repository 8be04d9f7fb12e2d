//! The store's own time: the timeline T.
//!
//! Jobs are early or late on T and on nothing else. T starts from the wall clock and is carried by the monotonic
//! clock, so no step of the wall clock makes a job early; once a second the two are compared ([`Timeline::check`]):
//!
//! | the wall clock is | T |
//! |---|---|
//! | within 1 s | runs at 99 % to 101 % until they meet |
//! | behind by more | runs at 99 % until they meet; it never turns back |
//! | ahead by more, up to 24 h | jumps there, once both clocks have run together at that distance for 30 s |
//! | ahead by more than 24 h | goes on as it is, and says so: a person has to look |
//!
//! Example: at T = 12:00:00 the wall clock is set back to 11:00:00. A job put then with a delay of 10 s is due at
//! 12:00:10 on T and is handed out about 10 s later, as asked. T now runs at 99 %, and in a hundred hours both show
//! the same. Had the wall clock been set forward to 13:00:00 and stayed there, T would be 12:00:30 half a minute later
//! and 13:00:30 right after, with everything due in between due at once.
//!
//! There is no clock in here: readings of both are arguments. Inside, time is in microseconds.

use std::time::Duration;

use dwell_core::{Timestamp, limits};

/// The wall clock may be this far behind the mark at start: a clock that a crash or a time server set back a little.
const MOST_BEHIND_AT_START: u64 = limits::HOUR;
/// Distances up to this are closed by running a little faster or slower.
const SLEW_LIMIT: i64 = MICROS_A_SECOND;
/// A wall clock that is further ahead is not believed without a person.
const STEP_LIMIT: i64 = 24 * 3_600 * MICROS_A_SECOND;
/// So long both clocks have to run together before a step forward is taken.
const STEP_CONFIRMATION: i64 = 30 * MICROS_A_SECOND;
/// By so much their distance may change meanwhile: time servers steer by up to 0.05 %, and readings jitter.
const STEP_TOLERANCE: i64 = MICROS_A_SECOND / 4;
/// T gains or loses one part in so many while it is steered.
const SLEW_PARTS: i64 = 100;
/// Checks closer together than this tell nothing new, and would lose what steering gains to rounding.
const LEAST_BETWEEN_CHECKS: i64 = 1_000;

const MICROS_A_SECOND: i64 = 1_000_000;
const MICROS_A_MILLI: i64 = 1_000;

/// The store's own time.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// A reading of the monotonic clock, and T at it.
    anchor: i64,
    at: i64,
    /// By how much T is to gain (or, below zero, to lose) from the anchor on.
    steer: i64,
    /// The latest reading of the monotonic clock.
    latest: i64,
    /// A step forward that is being watched.
    step: Option<Step>,
    report: ClockReport,
}

/// A wall clock that is ahead.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Wall clock minus monotonic clock when it was first seen.
    distance: i64,
    /// The monotonic clock when it was first seen.
    since: i64,
}

/// What a check of the clocks found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReport {
    /// T minus the wall clock, in milliseconds, after the check.
    pub gap: i64,
    /// What T does about it.
    pub action: ClockAction,
}

/// What T does about its distance from the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockAction {
    /// Nothing: they agree.
    Agrees,
    /// It runs faster or slower by 1 %, for at most a second's worth.
    Slews,
    /// The wall clock is more than a second behind: T runs 1 % slower until they meet.
    WaitsForWall,
    /// The wall clock is ahead; T watches whether it stays there.
    WatchesStep,
    /// The wall clock was ahead for long enough, and T has just jumped by so many milliseconds.
    TookStep {
        /// How far.
        by: u64,
    },
    /// The wall clock is more than 24 h ahead. T does not follow; a restart would.
    RefusesStep,
}

/// The wall clock is too far behind what the store has already seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the clock is {} s behind the time this store had already reached ({} ms since 1970, the clock says {}); \
     set the clock right, or start with --accept-clock to go on from the store's time and wait for the clock to catch up",
    mark.since(*wall) / limits::SECOND, mark.as_millis(), wall.as_millis()
)]
pub struct ClockBehind {
    /// What the clock says.
    pub wall: Timestamp,
    /// What the store had reached.
    pub mark: Timestamp,
}

impl Timeline {
    /// Starts at the later of the wall clock and the mark, which is the latest T known to have been reached. A wall
    /// clock that is more than an hour behind the mark is refused unless the operator says `accept`.
    pub(crate) fn start(
        wall: Timestamp,
        monotonic: Duration,
        mark: Option<Timestamp>,
        accept: bool,
    ) -> Result<Self, ClockBehind> {
        let mark = mark.unwrap_or(Timestamp::EPOCH);
        if mark.since(wall) > MOST_BEHIND_AT_START && !accept {
            return Err(ClockBehind { wall, mark });
        }
        let (at, anchor) = (micros(wall.max(mark)), reading(monotonic));
        let report = ClockReport { gap: gap(at, wall), action: ClockAction::Agrees };
        Ok(Self { anchor, at, steer: 0, latest: anchor, step: None, report })
    }

    /// T, in whole milliseconds that have passed: what is due at this instant is due. It never falls, whatever the
    /// readings are.
    pub(crate) fn now(&mut self, monotonic: Duration) -> Timestamp {
        timestamp(self.advance(monotonic))
    }

    /// T, rounded up to whole milliseconds: what a delay counts from, so that it is never cut short.
    pub(crate) fn now_rounded_up(&mut self, monotonic: Duration) -> Timestamp {
        timestamp(self.advance(monotonic) + (MICROS_A_MILLI - 1))
    }

    /// Compares T with the wall clock and decides what to do about the distance. To be called about once a second.
    pub(crate) fn check(&mut self, wall: Timestamp, monotonic: Duration) -> ClockReport {
        let now = self.advance(monotonic);
        if self.latest - self.anchor < LEAST_BETWEEN_CHECKS {
            return self.report;
        }
        (self.anchor, self.at, self.steer) = (self.latest, now, 0);
        let ahead = wall_ahead(wall, now);
        let action = if ahead > SLEW_LIMIT {
            self.wall_is_ahead(wall, ahead)
        } else {
            self.step = None;
            self.steer = ahead;
            match ahead {
                0 => ClockAction::Agrees,
                ahead if ahead < -SLEW_LIMIT => ClockAction::WaitsForWall,
                _ => ClockAction::Slews,
            }
        };
        self.report = ClockReport { gap: gap(self.at, wall), action };
        self.report
    }

    fn wall_is_ahead(&mut self, wall: Timestamp, ahead: i64) -> ClockAction {
        if ahead > STEP_LIMIT {
            self.step = None;
            return ClockAction::RefusesStep;
        }
        let distance = micros(wall) - self.latest;
        let step = match self.step {
            Some(step) if (distance - step.distance).abs() <= STEP_TOLERANCE => step,
            _ => Step { distance, since: self.latest },
        };
        if self.latest - step.since < STEP_CONFIRMATION {
            self.step = Some(step);
            return ClockAction::WatchesStep;
        }
        self.step = None;
        self.at = micros(wall);
        ClockAction::TookStep { by: u64::try_from(ahead / MICROS_A_MILLI).unwrap_or(0) }
    }

    /// T at this reading, in microseconds.
    fn advance(&mut self, monotonic: Duration) -> i64 {
        self.latest = self.latest.max(reading(monotonic));
        let elapsed = self.latest - self.anchor;
        let most = elapsed / SLEW_PARTS;
        self.at + elapsed + self.steer.clamp(-most, most)
    }
}

/// How far the wall clock is ahead of T (or, below zero, behind). It shows whole milliseconds only, so it agrees with
/// every T within the one it shows.
fn wall_ahead(wall: Timestamp, now: i64) -> i64 {
    let (first, last) = (micros(wall), micros(wall) + MICROS_A_MILLI - 1);
    if now < first {
        first - now
    } else if now > last {
        last - now
    } else {
        0
    }
}

/// T minus the wall clock, in milliseconds.
fn gap(now: i64, wall: Timestamp) -> i64 {
    (now - micros(wall)).div_euclid(MICROS_A_MILLI)
}

fn micros(at: Timestamp) -> i64 {
    at.as_millis().cast_signed() * MICROS_A_MILLI
}

fn timestamp(micros: i64) -> Timestamp {
    let millis = u64::try_from(micros / MICROS_A_MILLI).expect("T begins at 1970 or later and never falls");
    Timestamp::from_millis(millis).unwrap_or(Timestamp::MAX)
}

/// A reading of the monotonic clock in microseconds. A clock that has run for a hundred thousand years stands still,
/// so that no sum overflows.
fn reading(monotonic: Duration) -> i64 {
    const LAST_MICROS: i64 = 1 << 62;
    i64::try_from(monotonic.as_micros()).unwrap_or(LAST_MICROS).min(LAST_MICROS)
}

#[cfg(test)]
mod tests;
