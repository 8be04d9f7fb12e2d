//! Histories written by hand: one a verdict, each beside the same history without the fault.

mod disks;

use super::*;

/// A history under construction. Jobs are those of one writer; the server's time is in milliseconds.
struct Story {
    checker: Checker,
    calls: u64,
    /// Our own clock, in microseconds.
    at: u64,
}

const TTR: u64 = 1_000;
/// When jobs are put, on the server's clock.
const PUT: u64 = 1_000_000;

/// A job that is due within the second and neither cancelled nor moved.
fn near() -> Key {
    (0..1_000).map(|seq| Key(1, 0, seq)).find(|key| !key.is_far() && key.delay() > 200).unwrap()
}

fn due(key: Key) -> u64 {
    PUT + key.delay()
}

impl Story {
    fn new() -> Self {
        let mut story = Self { checker: Checker::new(), calls: 0, at: 0 };
        story.checker.event(Event::Round { round: 1 });
        story
    }

    fn call(&mut self, ask: Ask) -> u64 {
        self.calls += 1;
        self.checker.event(Event::Call { call: self.calls, at: self.at, ask });
        self.calls
    }

    fn done(&mut self, call: u64, answer: Answer) {
        self.checker.event(Event::Done { call, at: self.at, answer });
    }

    fn both(&mut self, ask: Ask, answer: Answer) -> &mut Self {
        let call = self.call(ask);
        self.done(call, answer);
        self
    }

    fn put_with(&mut self, key: Key, answer: Answer) -> &mut Self {
        self.both(Ask::Put { round: key.0, writer: key.1, first: key.2, count: 1 }, answer)
    }

    fn put(&mut self, key: Key) -> &mut Self {
        self.put_with(key, Answer::Put(vec![Stored::Created(due(key), 10)]))
    }

    /// Lets our own clock go on.
    fn after(&mut self, millis: u64) -> &mut Self {
        self.at += millis * 1_000;
        self
    }

    /// A lease that begins at this moment of the server's.
    fn lease(&mut self, key: Key, begun: u64, version: u64, attempt: u32) -> &mut Self {
        let held = Held { job: key, version, attempt, due: due(key), expires: begun + TTR, whole: true };
        self.both(Ask::Lease { ttr: TTR }, Answer::Leased(vec![held]))
    }

    fn settle(&mut self, key: Key, version: u64, verb: Verb, answer: Answer) -> &mut Self {
        self.both(Ask::Settle { leases: vec![(key, version)], verb }, answer)
    }

    fn ack(&mut self, key: Key, version: u64) -> &mut Self {
        self.settle(key, version, Verb::Ack, Answer::Each(vec![200]))
    }

    fn cancel(&mut self, key: Key, status: u16) -> &mut Self {
        self.both(Ask::Cancel { jobs: vec![key] }, Answer::Each(vec![status]))
    }

    fn fault(&mut self, means: Means) -> &mut Self {
        self.checker.event(Event::Fault { at: self.at, what: "fault".to_owned(), means });
        self
    }

    fn up(&mut self) -> &mut Self {
        self.checker.event(Event::Up { at: self.at });
        self
    }

    /// What is wrong in the end, if these jobs are left.
    fn ends(mut self, left: &[Key]) -> Report {
        self.checker.event(Event::Left { jobs: left.to_vec() });
        self.checker.finish()
    }
}

fn told(tell: impl FnOnce(&mut Story, Key)) -> Report {
    told_until(&[], tell)
}

fn told_until(left: &[Key], tell: impl FnOnce(&mut Story, Key)) -> Report {
    let mut story = Story::new();
    tell(&mut story, near());
    story.ends(left)
}

#[track_caller]
fn only(report: &Report, wrong: Wrong) {
    assert_eq!(report.found.keys().copied().collect::<Vec<_>>(), [wrong], "{report}");
    assert_eq!(report.times(wrong), 1, "{report}");
}

#[track_caller]
fn clean(report: &Report) {
    assert!(report.is_clean(), "{report}");
}

#[test]
fn put_leased_and_acked_is_clean() {
    clean(&told(|story, job| {
        story.put(job).after(1_500).lease(job, due(job), 11, 1).ack(job, 11);
    }));
}

#[test]
fn a_stored_job_that_nobody_saw_again_is_lost() {
    only(
        &told(|story, job| {
            story.put(job);
        }),
        Wrong::Lost,
    );
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1);
        }),
        Wrong::Lost,
    );
    only(
        &told(|story, job| {
            story.put(job).cancel(job, 404);
        }),
        Wrong::Lost,
    );
}

#[test]
fn what_is_answered_after_a_power_cut_counts_for_nothing() {
    only(
        &told(|story, job| {
            story.fault(Means::Nothing).put(job).up();
        }),
        Wrong::Lost,
    );
    only(
        &told(|story, job| {
            story.put(job).fault(Means::NoMachine).up();
        }),
        Wrong::Lost,
    );
    only(
        &told(|story, job| {
            story.fault(Means::NoMachine).up().put(job);
        }),
        Wrong::Lost,
    );
    clean(&told(|story, job| {
        story.fault(Means::NoMachine).put(job).up();
    }));
    // Nor does a lease, but who received it may well have acked the job.
    clean(&told(|story, job| {
        story.put(job).after(1_500).fault(Means::NoMachine).lease(job, due(job), 11, 1).ack(job, 11).up();
    }));
}

#[test]
fn what_may_not_have_been_stored_is_not_lost() {
    let report = told(|story, job| {
        story.put_with(job, Answer::Unknown("lost".to_owned()));
    });
    clean(&report);
    assert_eq!(report.unknown.get("puts"), Some(&1));
    clean(&told(|story, job| {
        story.put_with(job, Answer::Unsent);
    }));
    clean(&told(|story, job| {
        story.put_with(job, Answer::Refused("storage_full".to_owned()));
    }));
}

#[test]
fn an_ack_or_cancel_without_an_answer_may_have_been_done() {
    let unknown = || Answer::Unknown("lost".to_owned());
    clean(&told(|story, job| {
        story.put(job).after(1_500).lease(job, due(job), 11, 1).settle(job, 11, Verb::Ack, unknown());
    }));
    clean(&told(|story, job| {
        story.put(job).both(Ask::Cancel { jobs: vec![job] }, unknown());
    }));
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1).settle(job, 11, Verb::Ack, Answer::Unsent);
        }),
        Wrong::Lost,
    );
}

#[test]
fn a_job_that_comes_back_after_its_ack_is_resurrected() {
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1).ack(job, 11);
            story.lease(job, due(job) + TTR, 12, 2).ack(job, 12);
        }),
        Wrong::Resurrected,
    );
}

#[test]
fn a_job_that_is_leased_after_its_cancel_is_resurrected() {
    only(
        &told(|story, job| {
            story.put(job).cancel(job, 204).after(1_500).lease(job, due(job), 11, 1).ack(job, 11);
        }),
        Wrong::Resurrected,
    );
    only(
        &told_until(&[near()], |story, job| {
            story.put(job).cancel(job, 204);
        }),
        Wrong::Resurrected,
    );
}

#[test]
fn a_job_that_is_cancelled_after_its_ack_is_resurrected() {
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1).ack(job, 11).cancel(job, 204);
        }),
        Wrong::Resurrected,
    );
}

#[test]
fn a_job_of_an_earlier_round_is_resurrected() {
    let old = Key(0, 0, 1);
    only(
        &told(|story, _| {
            story.after(1_500).lease(old, due(old), 11, 1);
        }),
        Wrong::Resurrected,
    );
    only(&told_until(&[old], |_, _| {}), Wrong::Resurrected);
}

#[test]
fn a_lease_that_begins_before_the_due_time_is_early() {
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job) - 1, 11, 1).ack(job, 11);
        }),
        Wrong::Early,
    );
}

#[test]
fn a_job_that_comes_too_soon_by_our_own_clock_is_early() {
    only(
        &told(|story, job| {
            story.put(job).after(20).lease(job, due(job), 11, 1).ack(job, 11);
        }),
        Wrong::Early,
    );
    clean(&told(|story, job| {
        story.put(job);
        story.fault(Means::ClockAhead);
        story.after(20).lease(job, due(job), 11, 1).ack(job, 11);
    }));
}

#[test]
fn a_due_time_that_was_moved_holds() {
    let moved = |due| Answer::Moved { due, version: 11 };
    only(
        &told(|story, job| {
            story.put(job).both(Ask::Move { job, delay: 5_000 }, moved(PUT + 5_000));
            story.after(6_000).lease(job, due(job), 12, 1).ack(job, 12);
        }),
        Wrong::Early,
    );
    only(
        &told(|story, job| {
            story.put(job).both(Ask::Move { job, delay: 0 }, moved(PUT));
            story.after(6_000).lease(job, due(job), 12, 1).ack(job, 12);
        }),
        Wrong::Changed,
    );
    clean(&told(|story, job| {
        story.put(job).both(Ask::Move { job, delay: 0 }, Answer::Unknown("lost".to_owned()));
        story.after(6_000).lease(job, due(job), 12, 1).ack(job, 12);
    }));
}

#[test]
fn two_leases_at_a_time_are_one_too_many() {
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1).lease(job, due(job) + TTR - 1, 12, 2).ack(job, 12);
        }),
        Wrong::DoubleLease,
    );
    // An ack that was not done leaves the lease as it was.
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1);
            story.settle(job, 11, Verb::Ack, Answer::Unknown("lost".to_owned()));
            story.lease(job, due(job) + 1, 12, 2).ack(job, 12);
        }),
        Wrong::DoubleLease,
    );
}

#[test]
fn a_second_delivery_has_a_named_cause() {
    let report = told(|story, job| {
        let start = due(job);
        story.put(job).after(1_500).lease(job, start, 11, 1);
        story.lease(job, start + TTR, 12, 2).settle(job, 12, Verb::Nack, Answer::Each(vec![200]));
        story.lease(job, start + TTR, 13, 3).settle(job, 13, Verb::Release, Answer::Each(vec![200]));
        story.lease(job, start + TTR, 14, 3).settle(job, 14, Verb::Ack, Answer::Unknown("lost".to_owned()));
        story.lease(job, start + 2 * TTR, 15, 4).ack(job, 15);
    });
    clean(&report);
    let causes: Vec<_> = report.duplicates.into_iter().collect();
    assert_eq!(causes, [("ack without an answer", 1), ("lease ran out", 1), ("nack", 1), ("release", 1)]);
}

#[test]
fn a_delivery_that_nobody_got_needs_a_lease_without_an_answer() {
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 2).ack(job, 11);
        }),
        Wrong::Duplicate,
    );
    clean(&told(|story, job| {
        story.put(job).both(Ask::Lease { ttr: TTR }, Answer::Unknown("lost".to_owned()));
        story.after(1_500).lease(job, due(job), 11, 2).ack(job, 11);
    }));
}

#[test]
fn a_lease_that_is_lost_before_it_ran_out_has_no_cause() {
    let lost = || Answer::Each(vec![409]);
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1).after(300).settle(job, 11, Verb::Ack, lost());
            story.after(1_000).lease(job, due(job) + TTR, 12, 2).ack(job, 12);
        }),
        Wrong::Duplicate,
    );
    clean(&told(|story, job| {
        story.put(job).after(1_500).lease(job, due(job), 11, 1).after(1_300).settle(job, 11, Verb::Ack, lost());
        story.lease(job, due(job) + TTR, 12, 2).ack(job, 12);
    }));
}

#[test]
fn attempts_are_neither_lost_nor_invented() {
    only(
        &told(|story, job| {
            story.put(job).after(1_500).lease(job, due(job), 11, 1);
            story.settle(job, 11, Verb::Nack, Answer::Each(vec![200])).lease(job, due(job), 12, 1).ack(job, 12);
        }),
        Wrong::Changed,
    );
}

#[test]
fn a_job_that_is_still_there_is_stuck() {
    only(
        &told_until(&[near()], |story, job| {
            story.put(job);
        }),
        Wrong::Stuck,
    );
}

#[test]
fn a_refused_job_that_is_there_is_a_phantom() {
    let full = || Answer::Refused("storage_full".to_owned());
    only(
        &told(|story, job| {
            story.put_with(job, full()).after(1_500).lease(job, due(job), 11, 1).ack(job, 11);
        }),
        Wrong::Phantom,
    );
    only(
        &told_until(&[near()], |story, job| {
            story.put_with(job, full());
        }),
        Wrong::Phantom,
    );
    only(
        &told(|story, job| {
            story.after(1_500).lease(job, due(job), 11, 1);
        }),
        Wrong::Phantom,
    );
}

#[test]
fn another_body_is_a_change() {
    only(
        &told(|story, job| {
            let held = Held { job, version: 11, attempt: 1, due: due(job), expires: due(job) + TTR, whole: false };
            story.put(job).after(1_500).both(Ask::Lease { ttr: TTR }, Answer::Leased(vec![held])).ack(job, 11);
        }),
        Wrong::Changed,
    );
}

#[test]
fn nothing_succeeds_after_a_failure_until_a_start() {
    let failed = || Answer::Unknown("storage_failed".to_owned());
    let other = Key(1, 1, 0);
    only(
        &told(|story, job| {
            story.put_with(other, failed()).put(job).after(1_500).up().lease(job, due(job), 11, 1).ack(job, 11);
        }),
        Wrong::AfterFailure,
    );
    clean(&told(|story, job| {
        story.put_with(other, failed()).up().put(job).after(1_500).lease(job, due(job), 11, 1).ack(job, 11);
    }));
    // What was asked before anybody knew may well have been done.
    clean(&told(|story, job| {
        let call = story.call(Ask::Put { round: 1, writer: 0, first: job.2, count: 1 });
        story.put_with(other, failed());
        story.done(call, Answer::Put(vec![Stored::Created(due(job), 10)]));
        story.after(1_500).up().lease(job, due(job), 11, 1).ack(job, 11);
    }));
}

#[test]
fn time_does_not_go_back() {
    let late = (near().2 + 1..1_000).map(|seq| Key(1, 0, seq)).find(|key| !key.is_far() && key.delay() > 200).unwrap();
    only(
        &told(|story, job| {
            story.put(job).put(late).after(1_500).lease(job, due(job) + 9_000, 11, 1).ack(job, 11);
            story.lease(late, due(late) + 100, 12, 1).ack(late, 12);
        }),
        Wrong::TimeFell,
    );
}

#[test]
fn answers_that_make_no_sense_are_odd() {
    only(
        &told(|story, job| {
            story.put_with(job, Answer::Refused("invalid_request".to_owned()));
        }),
        Wrong::Odd,
    );
    only(
        &told(|story, job| {
            story.put_with(job, Answer::Unknown("internal".to_owned()));
        }),
        Wrong::Odd,
    );
}

#[test]
fn a_history_without_an_end_proves_nothing() {
    let mut story = Story::new();
    story.put(near());
    only(&story.checker.finish(), Wrong::Odd);
}
