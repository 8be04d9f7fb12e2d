//! Which span of which trace: the `traceparent` of W3C Trace Context.

use std::fmt;

use aws_lc_rs::rand;

/// What a trace is known by.
pub type TraceId = [u8; 16];
/// What a span is known by in its trace.
pub type SpanId = [u8; 8];

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A span of a trace. Both have ids that are not all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    flags: u8,
}

impl Context {
    /// Reads a `traceparent` of version 00.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut next = || parts.next();
        let (version, trace, span, flags) = (next()?, bytes(next()?)?, bytes(next()?)?, bytes::<1>(next()?)?);
        let is_whole = version == "00" && next().is_none();
        (is_whole && trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags: flags[0] })
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span: random(), ..self }
    }

    /// The first span of a new trace, which is not sampled.
    pub fn root() -> Self {
        Self { trace: random(), span: random(), flags: 0 }
    }

    /// The same, sampled or not.
    #[must_use]
    pub(super) fn sampled(self, is_sampled: bool) -> Self {
        let flags = if is_sampled { self.flags | SAMPLED } else { self.flags & !SAMPLED };
        Self { flags, ..self }
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags, as they travel.
    pub fn flags(self) -> u8 {
        self.flags
    }

    /// The trace as a number, random in all its bits.
    pub(super) fn number(self) -> u64 {
        self.trace[8..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// Exactly so many bytes, in small hexadecimal digits.
fn bytes<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut bytes = [0; BYTES];
    if text.len() != 2 * BYTES {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(bytes)
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    // Without randomness the machine is broken; a trace is not worth a failure. Zeros are no id.
    if rand::fill(&mut bytes).is_err() || bytes == [0; BYTES] {
        bytes.fill(1);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written() {
        let context = Context::parse(GIVEN).unwrap();
        assert_eq!(context.trace[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(context.span, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), GIVEN);
        for flags in ["00", "02", "ff"] {
            let text = format!("{}{flags}", &GIVEN[..53]);
            let context = Context::parse(&text).unwrap();
            assert_eq!((context.to_string(), context.is_sampled()), (text, flags == "ff"));
        }
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        for wrong in [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_child_is_of_the_same_trace_and_new() {
        let given = Context::parse(GIVEN).unwrap();
        let child = given.child();
        assert_eq!((child.trace, child.flags()), (given.trace, given.flags()));
        assert_ne!(child.span, given.span);
        assert_ne!(Context::root().trace, Context::root().trace);
        assert!(!Context::root().is_sampled());
    }
}
