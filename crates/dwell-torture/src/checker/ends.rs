//! What can be said of a job when everything has come to its end.

use std::collections::HashSet;

use super::{Checker, Job, Lease, Put, Report, Settled, Wrong};
use crate::history::Verb;
use crate::job::Key;

impl Checker {
    /// The history is over.
    pub(crate) fn finish(mut self) -> Report {
        let left = self.left.take();
        let is_whole = left.is_some();
        let left: HashSet<Key> = left.unwrap_or_default().into_iter().collect();
        if !is_whole {
            self.report
                .wrong(Wrong::Odd, || "the history has no end: nothing can be said of what is missing".to_owned());
        }
        let mut jobs: Vec<(Key, Job)> = self.jobs.drain().collect();
        jobs.sort_unstable_by_key(|(key, _)| *key);
        for (key, mut job) in jobs {
            job.leases.sort_unstable_by_key(|lease| lease.version);
            self.judge_leases(key, &job);
            if is_whole {
                judge_end(&mut self.report, key, &job, left.contains(&key));
            }
        }
        for key in left.iter().filter(|key| key.0 != self.round) {
            self.report.wrong(Wrong::Resurrected, || format!("{key} is of a round that had come to its end"));
        }
        self.report
    }

    fn judge_leases(&mut self, key: Key, job: &Job) {
        let Some(first) = job.leases.first() else { return };
        if job.put == Put::Refused {
            self.report.wrong(Wrong::Phantom, || format!("{key} was refused and then leased"));
        }
        if first.attempt > 1 {
            self.unseen(key, first.attempt - 1);
        } else if job.open_moves == 0 {
            let before = job.due.iter().filter(|(version, _)| *version < first.version);
            if let Some((_, due)) = before.max().copied() {
                let wrong = if first.due < due { Wrong::Early } else { Wrong::Changed };
                if first.due != due {
                    self.report.wrong(wrong, || format!("{key} was to be due at {due} and was so at {}", first.due));
                }
            }
        }
        for pair in job.leases.windows(2) {
            self.judge_pair(key, &pair[0], &pair[1]);
        }
    }

    /// A job was handed out again: why?
    fn judge_pair(&mut self, key: Key, one: &Lease, next: &Lease) {
        let ran_out = next.begun >= one.expires;
        let cause = match one.settled {
            Some((Verb::Ack, Settled::Done(_))) => {
                return self.report.wrong(Wrong::Resurrected, || format!("{key} was acked and then leased again"));
            }
            Some((Verb::Nack, Settled::Done(_))) => "nack",
            Some((Verb::Release, Settled::Done(_))) => "release",
            Some((Verb::Nack | Verb::Release, Settled::Unknown)) => "nack or release without an answer",
            Some((_, Settled::Unknown)) if ran_out => "ack without an answer",
            _ if ran_out => "lease ran out",
            _ => {
                let overlap = one.expires - next.begun;
                return self.report.wrong(Wrong::DoubleLease, || {
                    format!("{key} was leased again {overlap} ms before its lease ran out (extended: {})", one.extended)
                });
            }
        };
        *self.report.duplicates.entry(cause).or_default() += 1;
        let counts = cause != "release" && cause != "nack or release without an answer";
        let least = if counts { one.attempt + 1 } else { one.attempt };
        if next.attempt < least {
            self.report.wrong(Wrong::Changed, || {
                format!("after attempt {} of {key} ({cause}) came attempt {}", one.attempt, next.attempt)
            });
        }
        if next.attempt > one.attempt + 1 {
            self.unseen(key, next.attempt - one.attempt - 1);
        }
    }

    /// Deliveries that nobody saw: leases whose answers were lost, if any were.
    fn unseen(&mut self, key: Key, count: u32) {
        if self.lost_leases == 0 {
            return self.report.wrong(Wrong::Duplicate, || format!("{count} deliveries of {key} went to nobody"));
        }
        *self.report.duplicates.entry("lease without an answer").or_default() += u64::from(count);
    }
}

fn judge_end(report: &mut Report, key: Key, job: &Job, is_left: bool) {
    let acks = job.leases.iter().filter_map(|lease| lease.settled).filter(|(verb, _)| *verb == Verb::Ack);
    let acks: Vec<Settled> = acks.map(|(_, settled)| settled).collect();
    let is_over = job.cancelled.is_some() || acks.iter().any(|ack| matches!(ack, Settled::Done(_)));
    let may_be_over = job.open_cancels > 0 || job.acked_unseen || acks.contains(&Settled::Unknown);
    match job.put {
        _ if is_left && is_over => {
            report.wrong(Wrong::Resurrected, || format!("{key} was acked or cancelled and is there at the end"));
        }
        Put::Refused if is_left => {
            report.wrong(Wrong::Phantom, || format!("{key} was refused and is there at the end"));
        }
        _ if is_left => report.wrong(Wrong::Stuck, || format!("{key} was never handed out")),
        Put::Stored if !is_over && !may_be_over => {
            report.wrong(Wrong::Lost, || format!("{key} was put, and is neither there nor was it ever acked"));
        }
        _ => {}
    }
}
