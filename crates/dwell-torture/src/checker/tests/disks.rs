//! What a disk that is full, or cannot be read, may break and what not.

use super::*;

/// On a full disk puts are refused, and nothing else is any different.
#[test]
fn a_full_disk_breaks_nothing_but_puts() {
    let refused = || Answer::Refused("storage_full".to_owned());
    let full = |put: Answer, lease: Answer| {
        let mut report = told(|story, job| {
            story.put_with(job, put).both(Ask::Lease { ttr: TTR }, lease);
        });
        report.was_full();
        report
    };
    clean(&full(refused(), Answer::Leased(Vec::new())));
    only(&full(refused(), refused()), Wrong::NotGraceful);
    only(&full(refused(), Answer::Unknown("storage_failed".to_owned())), Wrong::NotGraceful);
    // One that refused no put was never full.
    only(&full(Answer::Unsent, Answer::Leased(Vec::new())), Wrong::NotGraceful);
}

/// What cannot be read is refused and the store goes on; but only where reads fail.
#[test]
fn what_cannot_be_read_is_no_failure_of_the_store() {
    let mut report = told(|story, job| {
        let other = Key(1, 1, 0);
        story.put_with(other, Answer::Refused("unreadable".to_owned()));
        story.put(job).after(1_500).lease(job, due(job), 11, 1).ack(job, 11);
    });
    clean(&report);
    report.was_readable();
    only(&report, Wrong::Odd);
}
