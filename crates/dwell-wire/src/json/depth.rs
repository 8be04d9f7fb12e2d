//! How deep a JSON text is nested.

/// Levels of objects and lists that a request may have, its own object included: what common JSON readers take.
pub(super) const MOST: usize = 128;

/// Whether a valid JSON text has more than `most` levels of objects and lists.
pub(super) fn deeper_than(text: &str, most: usize) -> bool {
    // A text that short cannot be that deep.
    if text.len() <= most {
        return false;
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match (in_string, byte) {
            (true, b'\\') => drop(bytes.next()),
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            (false, b'}' | b']') => depth -= 1,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_count_and_strings_do_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!deeper_than(&nested(128), 128));
        assert!(deeper_than(&nested(129), 128));
        assert!(!deeper_than(&format!("\"{}\"", "[".repeat(500)), 128));
        assert!(!deeper_than(&format!("\"\\\"{}\"", "[".repeat(500)), 128));
        assert!(deeper_than(&format!("[\"\\\\\",{}]", nested(128)), 128));
        assert!(!deeper_than(&format!("[{}]", vec!["[]"; 500].join(",")), 128));
    }
}
