//! Numbers as the protocol has them: decimal digits, after any number of spaces.

/// A number at the beginning of `text`, and what follows it. `None` if there is none or it has more than 64 bits.
pub(crate) fn read_u64(text: &[u8]) -> Option<(u64, &[u8])> {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    let text = &text[spaces..];
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let mut number = 0_u64;
    for digit in &text[..digits] {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some((number, &text[digits..]))
}

/// The same with no more than 32 bits.
pub(crate) fn read_u32(text: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = read_u64(text)?;
    Some((u32::try_from(number).ok()?, rest))
}

/// A number that is all of `text`.
pub(crate) fn whole_u64(text: &[u8]) -> Option<u64> {
    read_u64(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// The same with no more than 32 bits.
pub(crate) fn whole_u32(text: &[u8]) -> Option<u32> {
    read_u32(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Appends a number.
pub(crate) fn write(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_go_before_a_number_and_nothing_else() {
        assert_eq!(read_u64(b"  12 3"), Some((12, &b" 3"[..])));
        assert_eq!(read_u64(b"12x"), Some((12, &b"x"[..])));
        for wrong in ["", " ", "x", "-1", "+1", "\t1"] {
            assert_eq!(read_u64(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!((whole_u64(b" 7"), whole_u64(b"7 ")), (Some(7), None));
    }

    #[test]
    fn numbers_have_their_limits() {
        assert_eq!(whole_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole_u64(b"18446744073709551616"), None);
        assert_eq!(whole_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(whole_u32(b"4294967296"), None);
    }

    #[test]
    fn what_is_written_is_what_it_is() {
        for number in [0, 9, 10, 1_234_567_890, u64::MAX] {
            let mut out = Vec::new();
            write(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
