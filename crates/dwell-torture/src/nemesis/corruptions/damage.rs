//! What is done to files, chosen by a seed.

use std::fmt;
use std::fs;
use std::path::Path;

use super::prepared::Prepared;
use crate::Outcome;
use crate::job::scramble;

/// What a disk loses at once.
const PAGE: usize = 4_096;

/// Something that has happened to one file, or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    file: String,
    how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    /// Bits: where, and which.
    Flipped(Vec<(usize, u8)>),
    /// A page of zeros.
    Blank(usize),
    /// From here on nothing was written, although the file has its length.
    Torn(usize),
    CutTo(usize),
    /// A page that belongs elsewhere: to, from.
    Misplaced(usize, usize),
    SwappedWith(String),
    Missing,
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    /// Below `sides`; 0 if there are none.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        usize::try_from(scramble(self.0) % (sides.max(1) as u64)).unwrap_or(0)
    }

    fn page(&mut self, length: usize) -> usize {
        self.roll(length.div_ceil(PAGE)) * PAGE
    }
}

impl Damage {
    pub(super) fn of(prepared: &Prepared, seed: u64) -> Outcome<Self> {
        // Apart from the rolls of the next seed.
        let mut dice = Dice(scramble(seed));
        let file = prepared.files[dice.roll(prepared.files.len())].clone();
        let length = prepared.bytes(&file)?.len();
        let how = match dice.roll(10) {
            0 => How::Missing,
            1 => How::SwappedWith(prepared.files[dice.roll(prepared.files.len())].clone()),
            2 => How::CutTo(dice.roll(length)),
            3 => How::Torn(dice.page(length)),
            4 => How::Blank(dice.page(length)),
            5 => How::Misplaced(dice.page(length), dice.page(length)),
            _ => How::Flipped((0..=dice.roll(3)).map(|_| (dice.roll(length), 1 << dice.roll(8))).collect()),
        };
        Ok(Self { file, how })
    }

    /// Does it to a copy. What is damaged is written anew, so that no other copy sees it.
    pub(super) fn apply(&self, prepared: &Prepared, copy: &Path) -> Outcome<()> {
        let path = copy.join(&self.file);
        if let How::SwappedWith(other) = &self.how {
            for (to, from) in [(&self.file, other), (other, &self.file)] {
                fs::remove_file(copy.join(to))?;
                fs::write(copy.join(to), prepared.bytes(from)?)?;
            }
            return Ok(());
        }
        fs::remove_file(&path)?;
        if self.how != How::Missing {
            let mut bytes = prepared.bytes(&self.file)?;
            self.how.spoil(&mut bytes);
            fs::write(&path, bytes)?;
        }
        Ok(())
    }

    /// Files that are not as they were, and the segment before one that is gone: where nothing says that there was
    /// another, all that can be told is where it should follow.
    pub(super) fn files(&self, all: &[String]) -> Vec<String> {
        let mut files = vec![self.file.clone()];
        if let How::SwappedWith(other) = &self.how {
            files.push(other.clone());
        }
        if self.how == How::Missing && self.file.starts_with("journal-") {
            let before = all.iter().rfind(|name| name.starts_with("journal-") && **name < self.file);
            files.extend(before.cloned());
        }
        files
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.how {
            How::Flipped(_) => "bits flipped",
            How::Blank(_) => "a page blank",
            How::Torn(_) => "torn",
            How::CutTo(_) => "cut short",
            How::Misplaced(..) => "a page misplaced",
            How::SwappedWith(_) => "two files swapped",
            How::Missing => "missing",
        }
    }
}

impl How {
    fn spoil(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        match self {
            Self::Flipped(bits) => {
                for (at, bit) in bits {
                    if let Some(byte) = bytes.get_mut(*at) {
                        *byte ^= bit;
                    }
                }
            }
            Self::Blank(from) => bytes[*from..(from + PAGE).min(length)].fill(0),
            Self::Torn(from) => bytes[*from..].fill(0),
            Self::CutTo(to) => bytes.truncate(*to),
            Self::Misplaced(to, from) => {
                let page = bytes[*from..(from + PAGE).min(length)].to_vec();
                let room = page.len().min(length - to);
                bytes[*to..to + room].copy_from_slice(&page[..room]);
            }
            Self::SwappedWith(_) | Self::Missing => {}
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.file, self.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoilt(how: &How) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..10_000_usize).map(|at| u8::try_from(1 + at / PAGE).unwrap()).collect();
        how.spoil(&mut bytes);
        bytes
    }

    #[test]
    fn only_a_segment_that_is_gone_may_be_named_by_the_one_before_it() {
        let all = ["dead-1", "journal-1", "journal-2", "journal-3", "manifest", "run-1"].map(str::to_owned);
        let files = |file: &str, how| Damage { file: file.to_owned(), how }.files(&all);
        assert_eq!(files("journal-3", How::Missing), ["journal-3", "journal-2"]);
        assert_eq!(files("journal-1", How::Missing), ["journal-1"]);
        assert_eq!(files("journal-3", How::CutTo(0)), ["journal-3"]);
        assert_eq!(files("run-1", How::Missing), ["run-1"]);
        assert_eq!(files("run-1", How::SwappedWith("dead-1".to_owned())), ["run-1", "dead-1"]);
    }

    #[test]
    fn each_kind_does_what_it_says_and_no_more() {
        let whole = spoilt(&How::Missing);
        let differ = |how: How| {
            let bytes = spoilt(&how);
            let differ: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != whole[*at]).collect();
            (bytes.len(), differ.first().copied(), differ.len())
        };
        assert_eq!(differ(How::Flipped(vec![(7, 1), (9_999, 128)])), (10_000, Some(7), 2));
        assert_eq!(differ(How::Blank(PAGE)), (10_000, Some(PAGE), PAGE));
        assert_eq!(differ(How::Blank(2 * PAGE)), (10_000, Some(2 * PAGE), 10_000 - 2 * PAGE));
        assert_eq!(differ(How::Torn(PAGE)), (10_000, Some(PAGE), 10_000 - PAGE));
        assert_eq!(differ(How::CutTo(5)), (5, None, 0));
        assert_eq!(differ(How::Misplaced(0, PAGE)), (10_000, Some(0), PAGE));
        assert_eq!(differ(How::Misplaced(2 * PAGE, 0)), (10_000, Some(2 * PAGE), 10_000 - 2 * PAGE));
    }
}
