//! What each record adds to its topic's totals, the same when it is logged and when it is replayed.

use dwell_core::Totals;

use crate::format::record::{Cause, GoneCause};

/// Counts a job's record.
pub(super) fn count(totals: &mut Totals, cause: Cause, was_buried: bool, is_buried: bool) {
    match cause {
        Cause::Put | Cause::Replace => totals.put += 1,
        Cause::Lease => totals.leased += 1,
        Cause::Nack => totals.nacked += 1,
        Cause::Timeout => totals.timed_out += 1,
        Cause::Release => totals.released += 1,
        Cause::Redrive => totals.redriven += 1,
        Cause::Bury | Cause::Extend | Cause::Change | Cause::Expire => {}
        Cause::Relog => return,
    }
    if is_buried && !was_buried {
        totals.buried += 1;
    }
}

/// Counts a job's end.
pub(super) fn count_gone(totals: &mut Totals, cause: GoneCause) {
    match cause {
        GoneCause::Ack => totals.acked += 1,
        GoneCause::Cancel => totals.cancelled += 1,
        GoneCause::Purge | GoneCause::KeepOver => totals.purged += 1,
        GoneCause::Replaced | GoneCause::TopicGone => {}
    }
}
