//! Lives that once went wrong, made short. Those about the disk are planted bugs by now (`Bug::EndNotWrittenAgain`,
//! `Bug::TopicsBeforeJournal`).

use dwell_sim::disk::{Cut, Fault, FaultKind};
use dwell_sim::event::{Due, Event, Name, Op, Policy, Put, Verb};
use dwell_sim::named::{self, put};
use dwell_sim::world::{Wrong, live_caught};

/// A seed whose lives have `Durability::None`.
const UNSYNCED: u64 = 0;

fn lease(topics: u64, max: u64, wait: u64) -> Event {
    Event::Call(Op::Lease { topics, max, wait, ttr: 0, auto_ack: false })
}

fn keep_done(topic: u64, keep_done: u64) -> Event {
    Event::Call(Op::Policy(Policy { topic, keep_done, ..Policy::default() }))
}

#[track_caller]
fn assert_fine(events: &[Event]) {
    assert_fine_under(7, events);
}

#[track_caller]
fn assert_fine_under(seed: u64, events: &[Event]) {
    if let Err(Wrong(wrong)) = live_caught(seed, events) {
        panic!("{wrong}");
    }
}

/// Two topics had something new at once; who waited for both took what someone who had come earlier waited for.
#[test]
fn nobody_is_overtaken_by_who_waits_for_more() {
    assert_fine(&[
        Event::Call(Op::Put(vec![put(0, 0, Due::In(0)), put(1, 0, Due::In(0)), put(2, 0, Due::In(0))])),
        lease(7, 3, 0),
        lease(0b101, 2, 10_000),
        lease(0b110, 3, 10_000),
        Event::Call(Op::Put(vec![put(2, 1, Due::In(0)), put(1, 1, Due::In(0))])),
    ]);
}

/// What one policy no longer remembered came back with the next one, and after a restart.
#[test]
fn what_was_forgotten_stays_forgotten() {
    for (first, second, pause) in [(3_000, 0, 0), (500, 3_000, 600), (500, 500, 2_000)] {
        assert_fine(&[
            keep_done(0, first),
            Event::Call(Op::Put(vec![put(0, 0, Due::In(0))])),
            lease(1, 1, 0),
            Event::Pass(1),
            Event::Call(Op::Settle(vec![(0, Verb::Ack)])),
            Event::Pass(0),
            Event::Oversleep(pause),
            keep_done(0, second),
            Event::Engine,
            keep_done(0, 3_000),
            Event::Look,
            Event::Cut(Cut::Keep),
            Event::Look,
        ]);
    }
}

/// A job leased by its number counted against the rate, or did not if nobody had looked at the topic since the start.
#[test]
fn what_is_leased_by_number_counts_whoever_has_looked() {
    let by_number = |id| Event::Call(Op::LeaseNumber { name: Name { topic: 0, id } });
    for looks in [0, 1] {
        let mut events = vec![
            Event::Call(Op::Policy(Policy { rate: 10, ..Policy::default() })),
            Event::Call(Op::Put(vec![put(0, 0, Due::In(2_000)), put(0, 1, Due::In(0))])),
            Event::Look,
            Event::Kill,
        ];
        events.extend((0..looks).map(|_| lease(0b11, 1, 0)));
        events.extend([
            Event::Pass(1_500),
            by_number(0),
            lease(1, 2, 0),
            Event::Pass(400),
            lease(1, 1, 0),
            Event::Look,
        ]);
        assert_fine(&events);
    }
}

/// Someone who has gone away before the store has closed gives back what it was to get, and who waits gets that.
#[test]
fn what_nobody_received_goes_to_who_waits_even_at_the_end() {
    assert_fine(&[
        Event::Call(Op::Put(vec![put(0, 2, Due::In(4))])),
        Event::Pass(2_000),
        lease(5, 2, 0),
        Event::HangUp(0),
        lease(3, 2, 2_000),
        Event::Close,
    ]);
}

/// Starts that each lost all they wrote left segments without a frame; when the ones before them were freed nothing in the
/// journal said how far it had come, and after a clean stop that was taken for damage.
#[test]
fn a_journal_without_a_frame_is_no_damage() {
    let policy = |topic| Event::Call(Op::Policy(Policy { topic, rate: 10, ..Policy::default() }));
    let lost = |topic| [policy(topic), Event::Engine, Event::Journal, Event::Cut(Cut::Drop)];
    for end in [Event::Cut(Cut::Keep), Event::Close, Event::Kill] {
        // A life without a sync for each answer.
        let mut events = vec![policy(0), Event::Close];
        events.extend((0..9).flat_map(|k| lost(k % 3)));
        events.extend([Event::Pass(5_000), end, Event::Look, Event::Close]);
        assert_fine_under(UNSYNCED, &events);
    }
}

/// Who waited in vain is answered at once, though what was given back in the same turn is not durable: allowed, and the
/// shadow must know.
#[test]
fn who_waited_in_vain_waits_for_no_sync() {
    let courier = |max, wait| Event::Call(Op::Push { max, per_line: 2, lines: 2, topics: 1, wait, auto_ack: false });
    let pushed = |topic, due| Put { target: 1, ..put(topic, 0, due) };
    assert_fine_under(
        27_593,
        &[
            Event::Call(Op::Put(vec![pushed(0, Due::In(10)), pushed(2, Due::In(5_000))])),
            Event::Pass(60_000),
            Event::Call(Op::LeaseNumber { name: Name { topic: 0, id: 0 } }),
            courier(1, 20_000),
            courier(3, 10),
            Event::Engine,
            Event::Fault(Fault { after: 1, kind: FaultKind::Sync }),
            Event::HangUp(0),
            Event::Oversleep(876),
            Event::Journal,
            Event::Call(Op::Get { name: Name { topic: 2, id: 1 } }),
            Event::Pass(0),
        ],
    );
}

/// Time falls back to the last mark if the wall clock was set back: allowed, and the shadow must know.
#[test]
fn time_may_fall_back_to_the_last_mark() {
    assert_fine(&[
        keep_done(1, 3_000),
        Event::Call(Op::Put(vec![put(1, 1, Due::In(0))])),
        Event::Call(Op::Lease { topics: 7, max: 2, wait: 0, ttr: 2_000, auto_ack: true }),
        Event::StepWall(-2_285_007),
        Event::Pass(5_000),
        Event::Look,
        Event::Cut(Cut::Keep),
    ]);
}

/// A save that failed left its topics' file behind. The next run set out to remove it when there would be time, and by
/// then had written its own under that very name, since nothing new had been logged.
#[test]
fn what_a_failed_save_left_is_not_removed_once_it_is_in_use() {
    let full =
        |put: Put, ladder: &[u64], target, body| Put { if_exists: 2, ladder: ladder.to_vec(), target, body, ..put };
    let fault = |after, kind| Event::Fault(Fault { after, kind });
    let fresh = Put { fresh: true, priority: 3, if_exists: 1, force: true, ..put(0, 1, Due::In(30_000)) };
    assert_fine_under(
        20_774_015_045,
        &[
            Event::Call(Op::Put(vec![
                full(put(0, 1, Due::In(0)), &[6, 50], 2, 8),
                full(put(0, 0, Due::In(30)), &[], 1, 8_271),
            ])),
            Event::Pass(40_000),
            Event::Cut(Cut::Drop),
            Event::Call(Op::Put(vec![Put { if_exists: 1, ..full(fresh, &[20_000, 1], 2, 39) }])),
            Event::Pass(50),
            Event::Spares,
            Event::Cut(Cut::Drop),
            fault(1, FaultKind::Sync),
            Event::Call(Op::Put(vec![
                Put { priority: 2, if_exists: 1, ..full(put(2, 0, Due::In(60_000)), &[6_000, 6, 3_000], 0, 30) },
                full(put(0, 0, Due::In(0)), &[5, 20], 0, 15),
            ])),
            Event::Pass(0),
            Event::Pass(3_000),
            Event::Journal,
            Event::Look,
            Event::Call(Op::Pause { topic: 1, length: 500 }),
            Event::Pass(2_000),
            Event::Cut(Cut::Keep),
            Event::Call(Op::Push { max: 3, per_line: 1, lines: 2, topics: 0, wait: 0, auto_ack: false }),
            Event::Pass(60_000),
            Event::Kill,
            fault(3, FaultKind::Name),
            Event::Pass(0),
            Event::Kill,
            Event::Spares,
            Event::Kill,
        ],
    );
}

/// See [`named`]: each is fine now, and shows its bug where that is planted again.
#[test]
fn lives_with_a_name_are_fine() {
    for (seed, events) in [named::a_flush_is_taken_for_another(), named::topics_are_written_over()] {
        assert_fine_under(seed, &events);
    }
}
