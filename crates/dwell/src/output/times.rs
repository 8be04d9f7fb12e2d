//! Instants, and how far away they are.

use dwell_wire::Instant;

/// An instant and how far away it is: `2026-11-15T17:38:00.250Z (in 29m)`.
pub(crate) fn when(instant: Instant, now: Instant) -> String {
    format!("{instant} ({})", away(instant, now))
}

/// How far away an instant is: `in 29m`, `29m ago`, `now`.
pub(crate) fn away(instant: Instant, now: Instant) -> String {
    match (instant.0.saturating_sub(now.0), now.0.saturating_sub(instant.0)) {
        (0, 0) => "now".to_owned(),
        (ahead, 0) => format!("in {}", span(ahead)),
        (_, past) => format!("{} ago", span(past)),
    }
}

/// A length, as exactly as people care for: `250ms`, `1.2s`, `29m`, `1h30m`.
pub(crate) fn span(millis: u64) -> String {
    const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    if millis < 10_000 {
        let (seconds, tenths) = (millis / 1_000, millis % 1_000 / 100);
        return if tenths == 0 { format!("{seconds}s") } else { format!("{seconds}.{tenths}s") };
    }
    // To the nearest second: what was put half an hour ahead a moment ago is still half an hour ahead.
    let seconds = millis.saturating_add(500) / 1_000;
    let largest = UNITS.iter().position(|(_, length)| seconds >= *length).unwrap_or(UNITS.len() - 1);
    let (unit, length) = UNITS[largest];
    let (count, rest) = (seconds / length, seconds % length);
    let next = UNITS.get(largest + 1).map(|(unit, length)| (unit, rest / length));
    match next {
        Some((next, more)) if count < 10 && more > 0 => format!("{count}{unit}{more}{next}"),
        _ => format!("{count}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_exact_as_people_care_for() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_250, "1.2s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (59_499, "59s"),
            (1_799_980, "30m"),
            (60_000, "1m"),
            (90_000, "1m30s"),
            (1_799_000, "29m"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
            (3 * 86_400_000, "3d"),
            (8 * 86_400_000, "1w1d"),
            (3_650 * 86_400_000, "521w"),
        ] {
            assert_eq!(span(millis), text, "{millis}");
        }
    }

    #[test]
    fn instants_are_ahead_past_or_now() {
        let now = Instant(1_000_000);
        assert_eq!(away(Instant(2_740_000), now), "in 29m");
        assert_eq!(away(Instant(940_000), now), "1m ago");
        assert_eq!(away(now, now), "now");
        assert_eq!(when(Instant(1_060_000), now), "1970-01-01T00:17:40.000Z (in 1m)");
    }
}
