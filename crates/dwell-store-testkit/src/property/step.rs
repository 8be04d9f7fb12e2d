//! One random step, in the small words that shrink well.

use std::fmt;

use proptest::prelude::*;

/// How many topics and ids there are.
pub(super) const TOPICS: u8 = 2;
pub(super) const IDS: u8 = 4;

/// One thing done to store and model alike. Numbers are small indexes and whole units of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put a job.
    Put {
        /// Which.
        job: Name,
        /// Due when.
        when: Due,
        /// Its priority.
        priority: u8,
        /// 0 replace, 1 keep, 2 reject.
        if_exists: u8,
        /// Which version it must have.
        if_match: Match,
        /// By force.
        force: bool,
        /// Steps of its ladder, if it has one.
        ladder: Option<Vec<u8>>,
        /// Its ttl, if it has one.
        ttl: Option<u8>,
        /// Its ttr, if it has one.
        ttr: Option<u8>,
    },
    /// Lease jobs of one topic or of both.
    Lease {
        /// The topic; both if there is none of that number.
        topic: u8,
        /// How many.
        max: u8,
        /// For how long.
        ttr: Option<u8>,
        /// Settle them at once.
        auto_ack: bool,
    },
    /// Lease one job by number.
    LeaseNumber {
        /// Which.
        job: Name,
    },
    /// Settle a lease, live or not.
    Settle {
        /// Which of all leases ever given, counted from the newest.
        lease: u8,
        /// How.
        verb: Verb,
    },
    /// Change a job.
    Change {
        /// Which.
        job: Name,
        /// Due when.
        when: Option<Due>,
        /// A new priority.
        priority: Option<u8>,
        /// A new ttl; 0 clears it.
        ttl: Option<u8>,
        /// Which version it must have.
        if_match: Match,
        /// By force.
        force: bool,
    },
    /// Cancel a job.
    Cancel {
        /// Which.
        job: Name,
        /// Which version it must have.
        if_match: Match,
        /// By force.
        force: bool,
    },
    /// Redrive a topic's dead letters, or kick.
    Redrive {
        /// Which topic.
        topic: u8,
        /// At most so many.
        max: u8,
        /// After so long.
        delay: u8,
        /// Delayed ones if none is buried.
        else_delayed: bool,
    },
    /// Purge a state.
    Purge {
        /// Which topic.
        topic: u8,
        /// Which of the four states; the whole topic if there is none of that number.
        state: u8,
    },
    /// Pause or resume a topic.
    Pause {
        /// Which topic.
        topic: u8,
        /// For so long; 0 resumes, 1 is until resumed.
        units: u8,
    },
    /// Set a topic's policy.
    Policy {
        /// Which topic.
        topic: u8,
        /// Jobs in flight; 0 is no bound.
        max_in_flight: u8,
        /// Ttl; 0 is none.
        ttl: u8,
        /// How long dead letters are kept; 0 is for ever.
        keep_buried: u8,
        /// How long acked ids are remembered; 0 is not at all.
        keep_done: u8,
    },
    /// Let time pass.
    Advance {
        /// So many units.
        units: u8,
    },
    /// End the store and start it again, if it can be.
    Restart {
        /// Without a word.
        killed: bool,
    },
    /// Compare everything that can be seen.
    Look,
}

/// A topic and an id, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub u8, pub u8);

/// A due time, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// From now.
    In(u8),
    /// From the beginning of the case; may be past.
    At(u8),
}

/// What an `If-Match` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Nothing.
    Any,
    /// The version the job has now.
    Current,
    /// The first version any job of that name had.
    First,
}

/// How a lease is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Ack.
    Ack,
    /// Nack, with a delay of its own perhaps.
    Nack(Option<u8>),
    /// Release, with delay and priority perhaps.
    Release(Option<u8>, Option<u8>),
    /// Bury, with a priority perhaps.
    Bury(Option<u8>),
    /// Extend.
    Extend(Option<u8>),
}

impl fmt::Display for Step {
    /// The step without whatever it leaves open.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{self:?}").replace("Name", "").replace(" }", "").replace(" {", ",");
        let open = |part: &&str| ![": None", ": false", ": Any"].iter().any(|end| part.ends_with(end));
        let said: Vec<&str> = text.split(", ").filter(open).collect();
        f.write_str(&said.join(", "))
    }
}

/// Any step, the common ones more often.
pub(super) fn any() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => put(),
        8 => (0..=TOPICS, 1..5u8, maybe(1..6u8), prop::bool::weighted(0.1))
            .prop_map(|(topic, max, ttr, auto_ack)| Step::Lease { topic, max, ttr, auto_ack }),
        1 => name().prop_map(|job| Step::LeaseNumber { job }),
        8 => (0..6u8, verb()).prop_map(|(lease, verb)| Step::Settle { lease, verb }),
        3 => (name(), maybe(due()), maybe(rank()), maybe(0..5u8), if_match(), prop::bool::weighted(0.2)).prop_map(
            |(job, when, priority, ttl, if_match, force)| Step::Change { job, when, priority, ttl, if_match, force }
        ),
        3 => (name(), if_match(), prop::bool::weighted(0.2))
            .prop_map(|(job, if_match, force)| Step::Cancel { job, if_match, force }),
        2 => (0..TOPICS, 1..4u8, 0..4u8, any_bool())
            .prop_map(|(topic, max, delay, else_delayed)| Step::Redrive { topic, max, delay, else_delayed }),
        1 => (0..TOPICS, 0..6u8).prop_map(|(topic, state)| Step::Purge { topic, state }),
        1 => (0..TOPICS, 0..5u8).prop_map(|(topic, units)| Step::Pause { topic, units }),
        1 => (0..TOPICS, 0..3u8, 0..6u8, 0..6u8, 0..6u8).prop_map(
            |(topic, max_in_flight, ttl, keep_buried, keep_done)| {
                Step::Policy { topic, max_in_flight, ttl, keep_buried, keep_done }
            }
        ),
        8 => (0..6u8).prop_map(|units| Step::Advance { units }),
        1 => any_bool().prop_map(|killed| Step::Restart { killed }),
        3 => Just(Step::Look),
    ]
}

fn put() -> impl Strategy<Value = Step> {
    let first = (name(), due(), rank(), 0..3u8, if_match(), prop::bool::weighted(0.2));
    let second = (maybe(prop::collection::vec(0..4u8, 1..4)), maybe(1..6u8), maybe(1..6u8));
    (first, second).prop_map(|((job, when, priority, if_exists, if_match, force), (ladder, ttl, ttr))| Step::Put {
        job,
        when,
        priority,
        if_exists,
        if_match,
        force,
        ladder,
        ttl,
        ttr,
    })
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => Just(Verb::Ack),
        3 => maybe(0..4u8).prop_map(Verb::Nack),
        2 => (maybe(0..4u8), maybe(0..4u8)).prop_map(|(delay, priority)| Verb::Release(delay, priority)),
        2 => maybe(0..4u8).prop_map(Verb::Bury),
        2 => maybe(1..6u8).prop_map(Verb::Extend),
    ]
}

/// A priority: mostly one of four, sometimes one of more than a few, the last one among them.
fn rank() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 0..4u8, 1 => 4..12u8, 1 => Just(u8::MAX)]
}

fn name() -> impl Strategy<Value = Name> {
    (0..TOPICS, 0..IDS).prop_map(|(topic, id)| Name(topic, id))
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![3 => (0..5u8).prop_map(Due::In), 1 => (0..9u8).prop_map(Due::At)]
}

fn if_match() -> impl Strategy<Value = Match> {
    prop_oneof![8 => Just(Match::Any), 1 => Just(Match::Current), 1 => Just(Match::First)]
}

fn maybe<T: fmt::Debug + Clone>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.4, inner)
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.5)
}
