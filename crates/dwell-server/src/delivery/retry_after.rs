//! `Retry-After`: seconds, or a date.

use std::time::{Duration, SystemTime};

use dwell_core::limits;

/// How long a target asks to be left alone, cut to what it may ask for. A date counts from the target's own `Date` if it
/// sends one, since its clock and ours may differ; from `now` if not. One in the past asks for nothing.
pub(super) fn read(value: Option<&str>, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    const MOST: Duration = Duration::from_millis(limits::MAX_RETRY_AFTER);
    let value = value?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are more than anybody may ask for.
        return Some(value.parse().map_or(MOST, Duration::from_secs).min(MOST));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let from = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or(now);
    Some(until.duration_since(from).unwrap_or_default().min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_of_all_three_kinds() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |value: &str| read(Some(value), None, now).map(|wait| wait.as_secs());
        for (value, wait) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 120 ", Some(120)),
            ("86400", Some(86_400)),
            ("86401", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:50:37 GMT", Some(86_400)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(read(value), wait, "{value}");
        }
    }

    #[test]
    fn a_date_counts_from_the_targets_own() {
        let now = SystemTime::UNIX_EPOCH;
        let (until, from) = ("Sun, 06 Nov 1994 08:50:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(read(Some(until), Some(from), now), Some(Duration::from_mins(1)));
        assert_eq!(read(Some(until), Some("nonsense"), now), Some(Duration::from_hours(24)));
        assert_eq!(read(None, Some(from), now), None);
    }
}
