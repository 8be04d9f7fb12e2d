//! What was measured.

use hdrhistogram::Histogram;

/// Longest that can be told apart, in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// Figures of one task, or of all.
pub(super) struct Record {
    /// From the moment a put was meant to leave to its answer.
    pub(super) put: Histogram<u64>,
    /// From the moment it left.
    pub(super) put_service: Histogram<u64>,
    /// From the moment a put was meant to leave to when a consumer had the job.
    pub(super) handed_over: Histogram<u64>,
    /// From sending an ack to its answer.
    pub(super) ack: Histogram<u64>,
    /// Handed over minus due.
    pub(super) lateness: Histogram<u64>,
    /// Requests that were meant to leave and never did: they count with the time that they had waited.
    pub(super) never_sent: u64,
    /// Jobs put that no consumer had in time.
    pub(super) not_taken: u64,
    pub(super) failed: u64,
    pub(super) errors: Option<String>,
}

impl Record {
    pub(super) fn new() -> Self {
        // The bounds are fixed and known to be good.
        let empty = || Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds of a histogram are in order");
        Self {
            put: empty(),
            put_service: empty(),
            handed_over: empty(),
            ack: empty(),
            lateness: empty(),
            never_sent: 0,
            not_taken: 0,
            failed: 0,
            errors: None,
        }
    }

    pub(super) fn fail(&mut self, error: String) {
        self.failed += 1;
        self.errors.get_or_insert(error);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (all, one) in [
            (&mut self.put, &other.put),
            (&mut self.put_service, &other.put_service),
            (&mut self.handed_over, &other.handed_over),
            (&mut self.ack, &other.ack),
            (&mut self.lateness, &other.lateness),
        ] {
            all.add(one).expect("all histograms have the same bounds");
        }
        self.never_sent += other.never_sent;
        self.not_taken += other.not_taken;
        self.failed += other.failed;
        if self.errors.is_none() {
            self.errors.clone_from(&other.errors);
        }
    }
}
