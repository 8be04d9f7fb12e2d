//! The name of a tube.

use std::fmt;

use crate::MAX_TUBE;

/// The name of a tube: 1–200 bytes of `A-Z a-z 0-9 - + / ; . $ _ ( )`, not starting with `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tube<'a>(&'a str);

impl<'a> Tube<'a> {
    /// The tube that every connection uses and watches at first.
    pub const DEFAULT: Tube<'static> = Tube("default");

    /// Takes a name that keeps the rules.
    pub fn new(name: &'a str) -> Result<Self, BadTube> {
        Self::read(name.as_bytes()).ok_or(BadTube)
    }

    /// Takes bytes that are a name.
    pub(crate) fn read(name: &'a [u8]) -> Option<Self> {
        let fits = (1..=MAX_TUBE).contains(&name.len()) && name[0] != b'-' && name.iter().all(|&b| is_of_names(b));
        if fits { std::str::from_utf8(name).ok().map(Self) } else { None }
    }

    /// The name itself.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Display for Tube<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether names of tubes may have this byte in them.
pub(crate) fn is_of_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

/// That is no name of a tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTube;

impl fmt::Display for BadTube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tube's name has 1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( ) and does not start with -")
    }
}

impl std::error::Error for BadTube {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_rules() {
        let (longest, longer) = ("x".repeat(200), "x".repeat(201));
        for good in ["a", "default", "A-z+0/9;.$_()", ".", "$a", &longest] {
            assert_eq!(Tube::new(good).map(Tube::as_str), Ok(good));
        }
        for bad in ["", "-a", "a b", " a", "a\0", "ä", "a,b", "a\"", &longer] {
            assert_eq!(Tube::new(bad), Err(BadTube), "{bad}");
        }
    }
}
