//! What becomes of a job follows from its name, so that whoever reads a history knows what was asked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Topics that jobs are spread over.
const TOPICS: u16 = 4;

/// The delay of a job that is not meant to become due.
pub(crate) const DAY: u64 = 24 * 3_600 * 1_000;

/// The longest delay of the others, in milliseconds.
pub(crate) const SOON: u64 = 1_200;

/// A job's name: the round it belongs to, who put it, and its place among that writer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key(pub(crate) u32, pub(crate) u16, pub(crate) u32);

/// What a consumer does with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Ack,
    ExtendThenAck,
    Nack,
    Release,
    /// Nothing: the lease runs out.
    Leave,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Key {
    /// Reads an id.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split('.');
        let key = Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(key)
    }

    /// The topic it is put into.
    pub(crate) fn topic(self) -> &'static str {
        ALL_TOPICS[usize::from(self.1 % TOPICS)]
    }

    /// Its delay, in milliseconds.
    pub(crate) fn delay(self) -> u64 {
        if self.is_far() { DAY } else { self.roll(1, SOON) }
    }

    /// Whether it is not meant to become due.
    pub(crate) fn is_far(self) -> bool {
        self.roll(2, 10) < 3
    }

    /// Whether it is cancelled soon after it was put.
    pub(crate) fn is_cancelled(self) -> bool {
        self.roll(3, 20) == 0
    }

    /// The new delay, if it is moved soon after it was put.
    pub(crate) fn moved_to(self) -> Option<u64> {
        (self.roll(4, 25) == 0 && !self.is_cancelled()).then(|| self.roll(5, SOON))
    }

    /// Its priority: one of some, the ends of the range among them.
    pub(crate) fn priority(self) -> u32 {
        let priorities = [0, 1, 2, 1_023, 1_024, 1_024, 1_024, 1_025, 70_000, u32::MAX];
        priorities[usize::try_from(self.roll(7, priorities.len() as u64)).unwrap_or_default()]
    }

    /// Its body, as JSON: its name and some filling, whose length differs; one in a hundred is large.
    pub(crate) fn body(self) -> String {
        let filling = if self.roll(8, 100) == 0 { 562 } else { self.roll(6, 12) };
        let filling = usize::try_from(filling).unwrap_or_default();
        format!("{{\"job\":\"{self}\",\"filling\":\"{}\"}}", "abcdefghijklmnop".repeat(filling))
    }

    /// What the consumer does with the lease that gave it this version.
    pub(crate) fn treatment(self, version: u64) -> Treatment {
        match self.roll(100 + version, 100) {
            0..5 => Treatment::Nack,
            5..8 => Treatment::Release,
            8..10 => Treatment::Leave,
            10..14 => Treatment::ExtendThenAck,
            _ => Treatment::Ack,
        }
    }

    /// A number below `sides` that looks random and follows from the name and the question.
    fn roll(self, question: u64, sides: u64) -> u64 {
        let name = (u64::from(self.0) << 48) ^ (u64::from(self.1) << 32) ^ u64::from(self.2);
        scramble(scramble(name) ^ question) % sides
    }
}

/// The names of all topics.
pub(crate) const ALL_TOPICS: [&str; TOPICS as usize] = ["t0", "t1", "t2", "t3"];

/// One number made of another (splitmix64).
pub(crate) fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_which_job_it_is() {
        let key = Key(7, 3, 4_000_000_000);
        assert_eq!(Key::parse(&key.to_string()), Some(key));
        for id in ["", "1.2", "1.2.3.4", "1.2.x", "order-42"] {
            assert_eq!(Key::parse(id), None, "{id}");
        }
    }

    #[test]
    fn every_kind_of_job_occurs() {
        let keys: Vec<Key> = (0..2_000).map(|seq| Key(1, 0, seq)).collect();
        let share = |is: fn(&Key) -> bool| keys.iter().filter(|key| is(key)).count();
        for (found, wanted) in [
            (share(|key| key.is_far()), 400..800),
            (share(|key| key.is_cancelled()), 50..150),
            (share(|key| key.moved_to().is_some()), 40..130),
            (share(|key| key.treatment(1) == Treatment::Leave), 20..70),
            (share(|key| key.treatment(1) == Treatment::Nack), 60..150),
        ] {
            assert!(wanted.contains(&found), "{found} is not in {wanted:?}");
        }
    }
}
