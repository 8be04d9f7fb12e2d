//! What the files look like: bytes in, values out.
//!
//! | file | content | module |
//! |---|---|---|
//! | `manifest` | what holds at start: epoch, segments, reserves | [`manifest`] |
//! | `journal-<id>` | a header page, then frames | [`segment`], [`frame`] |
//! | `topics-<sequence>` | all topics and the counts of the cold tier, as of a sequence | [`topics`] |
//! | `run-<n>` | a sorted file of jobs: blocks, an index, hash tables, a Bloom filter | [`run`], [`table`], [`bloom_filter`] |
//! | `dead-<run>-<n>` | the tombstones of a run | [`tombstone_file`] |
//! | `spare-<n>`, `reserve` | zeros: segments to come, and space for a full disk | |
//! | a frame's payload | records, one after the other | [`record`] |
//! | a row's key | topic, line, lane, due time, number | [`key`] |
//!
//! [`bytes`] reads and writes the primitive values of all of them; `fuzzing` is what the fuzzer calls.
//!
//! Every file says its format version and carries checksums. Stored bytes are the world's, not ours: whatever they
//! are, reading them answers a value or an error and never panics, and no length found in them is allocated before
//! it is known to be there.

pub(crate) mod bloom_filter;
pub(crate) mod bytes;
pub(crate) mod frame;
pub(crate) mod key;
pub(crate) mod manifest;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod segment;
pub(crate) mod table;
pub(crate) mod tombstone_file;
pub(crate) mod topics;

/// The version of all formats together: what this build writes, and the newest it reads. How it is raised is told in
/// [`manifest`].
pub(crate) const VERSION: u16 = 1;

/// A file's name: `prefix`, then 16 hexadecimal digits.
fn numbered_name(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:016x}")
}

/// The number in a name that [`numbered_name`] made.
fn parse_numbered_name(prefix: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let plain = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

#[doc(hidden)]
pub mod fuzzing;

/// Bytes as a test writes them down.
#[cfg(test)]
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all");
        text
    })
}
