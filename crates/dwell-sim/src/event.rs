//! What can happen in a life.

use crate::chance::Chance;
use crate::disk::{Cut, Fault, FaultKind};

/// Topics there are.
pub const TOPICS: u64 = 3;
/// Targets there are.
pub const TARGETS: u64 = 2;
/// Ids there are.
pub const IDS: u64 = 8;
/// Bytes of the largest bodies, which take more than a segment.
pub const LARGEST_BODY: u64 = 40_000;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A client asks something.
    Call(Op),
    /// The engine takes a turn.
    Engine,
    /// The journal does one piece of work.
    Journal,
    /// A spare segment is made.
    Spares,
    /// Time passes; the engine wakes when it wants to, the journal works.
    Pass(u64),
    /// Time passes and nobody wakes.
    Oversleep(u64),
    /// Someone sets the wall clock.
    StepWall(i64),
    /// A client goes away without waiting for its answer.
    HangUp(u64),
    /// The disk will fail.
    Fault(Fault),
    /// The disk is full, or no longer.
    Full(bool),
    /// The power is cut and comes back.
    Cut(Cut),
    /// The process is killed and started again.
    Kill,
    /// The store is closed and opened again.
    Close,
    /// Everything is looked at.
    Look,
}

/// What a client asks, in small numbers that mean something only in a world.
#[expect(missing_docs, reason = "the fields are those of the calls")]
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Put these.
    Put(Vec<Put>),
    /// Lease from the topics of this mask.
    Lease { topics: u64, max: u64, wait: u64, ttr: u64, auto_ack: bool },
    /// Lease as a courier: so many of a line, not of these lines and topics.
    Push { max: u64, per_line: u64, lines: u64, topics: u64, wait: u64, auto_ack: bool },
    /// Lease the job of this name by its number.
    LeaseNumber { name: Name },
    /// Settle these leases, newest first.
    Settle(Vec<(u64, Verb)>),
    /// Change the job.
    Change {
        name: Name,
        due: Option<Due>,
        priority: u64,
        ttl: u64,
        body: u64,
        target: u64,
        if_match: bool,
        force: bool,
    },
    /// Cancel these.
    Cancel { names: Vec<Name>, if_match: bool, force: bool },
    /// Look it up.
    Get { name: Name },
    /// Bring dead letters back.
    Redrive { topic: u64, max: u64, delay: u64, else_delayed: bool },
    /// Remove a state (0–3) or the topic.
    Purge { topic: u64, state: u64 },
    /// 0 resumes, 1 pauses, more is a time.
    Pause { topic: u64, length: u64 },
    /// Replace the policy; 0 is unset.
    Policy(Policy),
}

/// A policy; 0 is unset.
#[expect(missing_docs, reason = "the fields are those of the policy")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub topic: u64,
    pub max_in_flight: u64,
    /// Jobs in ten seconds.
    pub rate: u64,
    pub ttl: u64,
    pub keep_buried: u64,
    pub keep_done: u64,
    pub ttr: u64,
    /// Which target the topic's jobs are pushed to.
    pub target: u64,
}

/// A topic and an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Which topic.
    pub topic: u64,
    /// Which id.
    pub id: u64,
}

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Milliseconds from when the store takes it.
    In(u64),
    /// Milliseconds from the beginning of the life.
    At(u64),
}

/// A job to be put.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// Its name.
    pub name: Name,
    /// Whether the id is made up instead.
    pub fresh: bool,
    /// When it is due.
    pub due: Due,
    /// Its priority.
    pub priority: u64,
    /// Replace, keep, reject.
    pub if_exists: u64,
    /// Even if leased.
    pub force: bool,
    /// Rests of its own ladder; none: the default's.
    pub ladder: Vec<u64>,
    /// Milliseconds; 0 is unset.
    pub ttl: u64,
    /// Milliseconds; 0 is unset.
    pub ttr: u64,
    /// Which target it is pushed to; 0 is unset.
    pub target: u64,
    /// Bytes of its body.
    pub body: u64,
}

/// What a holder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Done.
    Ack,
    /// Failed; the delay is one less, 0 is unset.
    Nack(u64),
    /// Given back; the delay is one less, 0 is unset.
    Release(u64),
    /// Put aside.
    Bury,
    /// Held for longer; milliseconds, 0 is unset.
    Extend(u64),
}

/// The life of a seed.
pub fn life(seed: u64) -> Vec<Event> {
    let mut chance = Chance::new(seed ^ 0x5eed);
    let length = chance.within(20..240);
    // Each life has its own temper.
    let temper = Temper {
        faults: chance.one_of(&[0, 0, 1, 3]),
        crashes: chance.one_of(&[0, 1, 3, 6]),
        clock: chance.one_of(&[0, 0, 2]),
        large: chance.one_of(&[0, 5, 30]),
        pushed: chance.one_of(&[0, 0, 20, 60]),
        ranks: chance.one_of(&[0, 0, 10, 50]),
    };
    (0..length).map(|_| any(&mut chance, &temper)).collect()
}

/// How often things happen, in percent.
struct Temper {
    faults: u64,
    crashes: u64,
    clock: u64,
    large: u64,
    pushed: u64,
    /// Priorities of all kinds, not just the first few.
    ranks: u64,
}

fn any(chance: &mut Chance, temper: &Temper) -> Event {
    if chance.percent(temper.faults) {
        return fault(chance);
    }
    if chance.percent(temper.crashes) {
        return match chance.within(0..6) {
            0 => Event::Kill,
            1 => Event::Close,
            _ => Event::Cut(chance.one_of(&[Cut::Drop, Cut::Keep, Cut::Writes, Cut::Pages])),
        };
    }
    if chance.percent(temper.clock) {
        let size = chance.one_of(&[300, 900, 5_000, 90_000, 3_000_000, 86_400_000]);
        let by = i64::try_from(chance.within(0..size)).unwrap_or(0);
        return Event::StepWall(if chance.percent(50) { by } else { -by });
    }
    match chance.within(0..100) {
        0..=44 => Event::Call(op(chance, temper)),
        45..=62 => Event::Engine,
        63..=76 => Event::Journal,
        77 => Event::Spares,
        78..=91 => Event::Pass(span(chance)),
        92..=93 => Event::Oversleep(chance.within(1..1_000)),
        94..=95 => Event::HangUp(chance.skewed(4)),
        _ => Event::Look,
    }
}

fn fault(chance: &mut Chance) -> Event {
    if chance.percent(15) {
        return Event::Full(chance.percent(60));
    }
    let kind = chance.one_of(&[FaultKind::Write, FaultKind::Sync, FaultKind::Name, FaultKind::Read]);
    Event::Fault(Fault { after: chance.skewed(8), kind })
}

/// A stretch of time: mostly short, sometimes long; round numbers meet each other.
fn span(chance: &mut Chance) -> u64 {
    let unit = chance.one_of(&[1, 10, 1_000, 1_000, 10_000]);
    unit * chance.within(0..7)
}

fn op(chance: &mut Chance, temper: &Temper) -> Op {
    if temper.pushed > 0 && chance.percent(temper.pushed / 4) {
        return push(chance);
    }
    match chance.within(0..42) {
        0..=13 => {
            let count = 1 + chance.skewed(4);
            Op::Put((0..count).map(|_| put(chance, temper)).collect())
        }
        14..=21 => Op::Lease {
            topics: chance.within(1..1 << TOPICS),
            max: 1 + chance.skewed(4),
            wait: if chance.percent(50) { span(chance) } else { 0 },
            ttr: if chance.percent(30) { 1_000 * chance.within(1..5) } else { 0 },
            auto_ack: chance.percent(10),
        },
        22 => Op::LeaseNumber { name: name(chance) },
        23..=29 => {
            let count = 1 + chance.skewed(3);
            Op::Settle((0..count).map(|_| (chance.skewed(5), verb(chance))).collect())
        }
        30..=31 => Op::Change {
            name: name(chance),
            due: chance.percent(70).then(|| due(chance)),
            priority: if chance.percent(70) { 1 + rank(chance, temper) } else { 0 },
            ttl: if chance.percent(20) { 1_000 * chance.within(1..5) } else { 0 },
            body: if chance.percent(30) { size(chance, temper) } else { 0 },
            target: if chance.percent(temper.pushed) { chance.within(0..2 + TARGETS) } else { 0 },
            if_match: chance.percent(20),
            force: chance.percent(20),
        },
        32..=34 => {
            let count = 1 + chance.skewed(3);
            let names = (0..count).map(|_| name(chance)).collect();
            Op::Cancel { names, if_match: chance.percent(20), force: chance.percent(20) }
        }
        35 => Op::Get { name: name(chance) },
        36 => Op::Redrive {
            topic: chance.within(0..TOPICS),
            max: 1 + chance.skewed(4),
            delay: span(chance),
            else_delayed: chance.percent(30),
        },
        37 => Op::Purge { topic: chance.within(0..TOPICS), state: chance.within(0..6) },
        38 => Op::Pause { topic: chance.within(0..TOPICS), length: chance.one_of(&[0, 0, 1, 500, 3_000]) },
        _ => Op::Policy(Policy {
            topic: chance.within(0..TOPICS),
            max_in_flight: chance.within(0..3),
            rate: chance.one_of(&[0, 0, 0, 5, 10, 34]),
            ttl: chance.one_of(&[0, 0, 0, 2_000]),
            keep_buried: chance.one_of(&[0, 0, 3_000]),
            keep_done: chance.one_of(&[0, 0, 500, 3_000]),
            ttr: chance.one_of(&[0, 0, 1_000, 5_000]),
            target: if chance.percent(temper.pushed) { chance.within(0..1 + TARGETS) } else { 0 },
        }),
    }
}

fn push(chance: &mut Chance) -> Op {
    Op::Push {
        max: 1 + chance.skewed(5),
        per_line: chance.within(0..3),
        lines: if chance.percent(40) { chance.within(0..1 << TARGETS) } else { 0 },
        topics: if chance.percent(40) { chance.within(0..1 << TOPICS) } else { 0 },
        wait: if chance.percent(60) { span(chance) } else { 0 },
        auto_ack: chance.percent(10),
    }
}

fn put(chance: &mut Chance, temper: &Temper) -> Put {
    let ladder = if chance.percent(40) { (0..=chance.skewed(3)).map(|_| span(chance)).collect() } else { Vec::new() };
    Put {
        name: name(chance),
        fresh: chance.percent(15),
        due: due(chance),
        priority: rank(chance, temper),
        if_exists: chance.within(0..3),
        force: chance.percent(15),
        ladder,
        ttl: if chance.percent(20) { 1_000 * chance.within(1..5) } else { 0 },
        ttr: if chance.percent(30) { 1_000 * chance.within(1..5) } else { 0 },
        target: if chance.percent(temper.pushed) { chance.within(0..1 + TARGETS) } else { 0 },
        body: size(chance, temper),
    }
}

fn size(chance: &mut Chance, temper: &Temper) -> u64 {
    if chance.percent(temper.large) {
        let most = chance.one_of(&[9_000, 9_000, 9_000, 9_000, LARGEST_BODY]);
        chance.within(1..most)
    } else {
        chance.within(1..40)
    }
}

/// A priority: mostly one of four; more of them than have lanes of their own, and the ends of the range, in some lives.
fn rank(chance: &mut Chance, temper: &Temper) -> u64 {
    if chance.percent(temper.ranks) {
        chance.one_of(&[0, 4, 5, 6, 7, 8, 9, 1_023, 1_024, 1_025, u64::from(u32::MAX) - 1, u64::from(u32::MAX)])
    } else {
        chance.skewed(4)
    }
}

fn due(chance: &mut Chance) -> Due {
    if chance.percent(75) { Due::In(span(chance)) } else { Due::At(1_000 * chance.within(0..60)) }
}

fn name(chance: &mut Chance) -> Name {
    Name { topic: chance.skewed(TOPICS), id: chance.skewed(IDS) }
}

fn verb(chance: &mut Chance) -> Verb {
    let maybe = |chance: &mut Chance| if chance.percent(40) { 1 + span(chance) } else { 0 };
    match chance.within(0..12) {
        0..=4 => Verb::Ack,
        5..=7 => Verb::Nack(maybe(chance)),
        8..=9 => Verb::Release(maybe(chance)),
        10 => Verb::Bury,
        _ => Verb::Extend(if chance.percent(50) { 1_000 * chance.within(1..5) } else { 0 }),
    }
}
