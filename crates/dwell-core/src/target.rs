//! Where a pushed job goes, and the line it queues on.

use std::fmt;
use std::sync::Arc;

use crate::limits;

/// An address to hand a job to (`deliver_to`), with its origin: scheme, host and port.
///
/// The edge that reads the address parses it with a URL library and says what the origin is; caps, breakers, metrics
/// and lines go by the origin.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Target {
    address: Arc<str>,
    origin: Arc<str>,
}

impl Target {
    /// Takes an address and its normalised origin.
    pub fn new(address: &str, origin: &str) -> Result<Self, TargetError> {
        let length = address.len().max(origin.len());
        if length > limits::MAX_TARGET {
            return Err(TargetError::TooLong { length });
        }
        if address.is_empty() || origin.is_empty() {
            return Err(TargetError::Empty);
        }
        Ok(Self { address: address.into(), origin: origin.into() })
    }

    /// The whole address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.address, f)
    }
}

/// Why a target was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Over the limit.
    #[error("has {length} bytes; at most {} are allowed", limits::MAX_TARGET)]
    TooLong {
        /// Bytes it has.
        length: usize,
    },
    /// Nothing there.
    #[error("is empty; give an address such as https://example.com/hook")]
    Empty,
}

/// One of a topic's queues. Ready order is per topic and line, so that a dead target never blocks the next one.
///
/// Line 0 is for jobs without a target of their own: pull consumers take from it, unless the topic's policy pushes.
/// Lines 1–1023 are hashes of the origin of a job's own target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(u16);

impl Line {
    /// The line of jobs without a target of their own.
    pub const PULL: Self = Self(0);

    /// The line of a job with this target.
    pub fn of(target: Option<&Target>) -> Self {
        target.map_or(Self::PULL, |target| {
            let lines = u64::from(limits::LINES - 1);
            let slot = fnv1a(target.origin().as_bytes()) % lines;
            Self(1 + u16::try_from(slot).expect("below 1023"))
        })
    }

    /// Takes a stored line.
    pub fn from_index(index: u16) -> Option<Self> {
        (index < limits::LINES).then_some(Self(index))
    }

    /// 0 to 1023.
    pub fn index(self) -> u16 {
        self.0
    }
}

/// FNV-1a, 64 bits: the line of a stored job must never change, so its hash is fixed here.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_by_the_origin_and_is_fixed_for_ever() {
        let line = |address, origin| Line::of(Some(&Target::new(address, origin).unwrap())).index();
        let origin = "https://example.com:443";
        assert_eq!(line("https://example.com/a", origin), line("https://example.com/b", origin));
        // Stored jobs rely on these very values.
        assert_eq!(line("https://example.com/a", origin), 272);
        assert_eq!(line("http://127.0.0.1:9/", "http://127.0.0.1:9"), 449);
        assert_eq!(Line::of(None), Line::PULL);
    }

    #[test]
    fn stored_lines_are_checked() {
        assert_eq!(Line::from_index(1_023).map(Line::index), Some(1_023));
        assert_eq!(Line::from_index(1_024), None);
    }

    #[test]
    fn targets_are_bounded() {
        assert_eq!(Target::new("", "x"), Err(TargetError::Empty));
        assert_eq!(Target::new("x", ""), Err(TargetError::Empty));
        assert!(Target::new(&"x".repeat(2_048), &"x".repeat(2_048)).is_ok());
        assert_eq!(Target::new(&"x".repeat(2_049), "x"), Err(TargetError::TooLong { length: 2_049 }));
        assert_eq!(Target::new("x", &"x".repeat(2_049)), Err(TargetError::TooLong { length: 2_049 }));
    }
}
