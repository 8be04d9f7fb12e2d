//! Every state × command pair in one table, then what the table cannot show: counts, ttl, and what time alone does.

use std::num::NonZeroU32;

use super::*;
use crate::job::{DeliveryAnswer, Edit, NewJob, Number, Priority};
use crate::names::{JobId, TopicName};
use crate::payload::{Body, Headers};
use crate::policy::{Defaults, TopicPolicy};
use crate::retry::{Backoff, Ladder, RetryPolicy};
use crate::target::Target;
use crate::time::Ttl;

/// The instant at which every command of the table is given.
const NOW: u64 = 1_000_000;

/// Columns: delayed, ready, leased, buried. A cell is the state afterwards, `gone`, or the refusal.
const TABLE: &str = "
    lease               NotReady   leased     NotReady   NotReady
    lease_by_number     leased     leased     NotReady   leased
    ack                 LeaseLost  LeaseLost  gone       LeaseLost
    nack                LeaseLost  LeaseLost  delayed    LeaseLost
    nack_at_once        LeaseLost  LeaseLost  ready      LeaseLost
    nack_last_attempt   LeaseLost  LeaseLost  buried     LeaseLost
    release             LeaseLost  LeaseLost  ready      LeaseLost
    release_delayed     LeaseLost  LeaseLost  delayed    LeaseLost
    bury                LeaseLost  LeaseLost  buried     LeaseLost
    extend              LeaseLost  LeaseLost  leased     LeaseLost
    ack_other_secret    LeaseLost  LeaseLost  LeaseLost  LeaseLost
    ack_other_version   LeaseLost  LeaseLost  LeaseLost  LeaseLost
    change_body         delayed    ready      Leased     buried
    change_body_force   delayed    ready      ready      buried
    move_later          delayed    delayed    Leased     delayed
    move_later_force    delayed    delayed    delayed    delayed
    move_now            ready      ready      Leased     ready
    move_too_far        Time       Time       Leased     Time
    change_too_large    TooLarge   TooLarge   Leased     TooLarge
    cancel              gone       gone       Leased     gone
    cancel_force        gone       gone       gone       gone
    redrive             ready      NotParked  NotParked  ready
    redrive_later       delayed    NotParked  NotParked  delayed
";

#[test]
fn every_state_meets_every_command() {
    let rows: Vec<Vec<&str>> = TABLE.trim().lines().map(|line| line.split_whitespace().collect()).collect();
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
        for (state, &expected) in State::ALL.into_iter().zip(&row[1..]) {
            let mut job = job_in(state);
            if row[0] == "nack_last_attempt" {
                job.attempt = 3;
            }
            let before = job.clone();
            let result = apply(&mut job, command(row[0]), &world().moment());
            let found = match result {
                Ok(Effect::Lives) => word(job.state(at(NOW))),
                Ok(Effect::Acked | Effect::Cancelled) => "gone",
                Err(Refusal::NotReady) => "NotReady",
                Err(Refusal::LeaseLost) => "LeaseLost",
                Err(Refusal::Leased) => "Leased",
                Err(Refusal::NotParked) => "NotParked",
                Err(Refusal::Time(_)) => "Time",
                Err(Refusal::TooLarge) => "TooLarge",
            };
            assert_eq!(found, expected, "{} of a job that is {}", row[0], word(state));
            match result {
                Ok(_) => assert_eq!(job.version, version(9), "{} raises the version", row[0]),
                Err(_) => assert_eq!(job, before, "{}: a refusal changes nothing", row[0]),
            }
        }
    }
}

#[test]
fn a_lease_counts_an_attempt_and_a_release_uncounts_it() {
    let mut job = job_in(State::Ready);
    run(&mut job, command("lease"));
    assert_eq!((job.attempt, job.counters.leases), (1, 1));
    assert_eq!(lease_of(&job).token.version, version(9));
    assert_eq!(lease_of(&job).expires_at, at(NOW + 60_000));

    let due_at = job.due_at;
    settle_with(&mut job, Verdict::Release { delay: None, priority: Some(Priority(1)) });
    assert_eq!((job.attempt, job.counters.releases, job.priority), (0, 1, Priority(1)));
    assert_eq!(job.due_at, due_at, "it keeps its place");
}

#[test]
fn a_nack_keeps_the_count_and_the_ladder_counts_from_the_failure() {
    let mut job = job_in(State::Leased);
    settle_with(&mut job, Verdict::Nack { error: Some(ErrorText::new("boom")), delay: None });
    assert_eq!(job.attempt, 1);
    assert_eq!(job.due_at, at(NOW + 15_000));
    assert_eq!(job.last_error.as_ref().map(ErrorText::as_str), Some("boom"));
}

#[test]
fn the_last_failure_buries() {
    let mut job = job_in(State::Leased);
    job.attempt = 3;
    settle_with(&mut job, Verdict::Nack { error: None, delay: Some(Delay::ZERO) });
    assert_eq!(burial_of(&job), (NOW, "attempts_exhausted"));
    assert_eq!(job.counters.buries, 1);
}

#[test]
fn the_last_lease_that_runs_out_buries_at_that_instant() {
    let mut job = job_in(State::Leased);
    job.attempt = 3;
    let end = lease_of(&job).expires_at.as_millis();
    assert_eq!(pass(&mut job, end + 5_000), Passage { timed_out: true, buried: true, gone: false });
    assert_eq!(burial_of(&job), (end, "attempts_exhausted"));
}

#[test]
fn a_failure_without_words_leaves_the_last_error_standing() {
    let mut job = job_in(State::Leased);
    job.last_error = Some(ErrorText::new("boom"));
    settle_with(&mut job, Verdict::Nack { error: None, delay: None });
    assert_eq!(job.last_error.as_ref().map(ErrorText::as_str), Some("boom"));
}

#[test]
fn a_rest_is_spread_by_the_moments_random_number() {
    let mut job = job_in(State::Leased);
    job.options.retry = Some(RetryPolicy::default());
    let nack = Command::Settle { token: token(), verdict: Verdict::Nack { error: None, delay: None }, delivery: None };
    let world = world();
    assert_eq!(apply(&mut job, nack, &Moment { random: u64::MAX, ..world.moment() }), Ok(Effect::Lives));
    assert_eq!(job.due_at, at(NOW + 1_100));
}

#[test]
fn a_burial_keeps_what_its_holder_says() {
    let mut job = job_in(State::Leased);
    settle_with(&mut job, Verdict::Bury { reason: None, priority: Some(Priority(4)) });
    assert_eq!((burial_of(&job), job.priority), ((NOW, "buried"), Priority(4)));
    let mut job = job_in(State::Leased);
    settle_with(&mut job, Verdict::Bury { reason: Some(Reason::new("bad address").unwrap()), priority: None });
    assert_eq!((burial_of(&job), job.priority), ((NOW, "bad address"), Priority::DEFAULT));
}

#[test]
fn extend_counts_from_now_and_keeps_token_and_ttr() {
    let mut job = job_in(State::Leased);
    let token = lease_of(&job).token;
    settle_with(&mut job, Verdict::Extend { ttr: Some(Ttr::from_millis(5_000).unwrap()) });
    assert_eq!((lease_of(&job).expires_at, lease_of(&job).token), (at(NOW + 5_000), token));
    settle_with(&mut job, Verdict::Extend { ttr: None });
    assert_eq!(lease_of(&job).expires_at, at(NOW + 30_000), "the lease's own ttr, not the last extension's");
}

#[test]
fn revival_gives_fresh_attempts_and_a_fresh_ttl() {
    for revive in ["redrive", "move_now"] {
        let mut job = job_in(State::Buried);
        job.attempt = 3;
        job.ttl_from = at(0);
        run(&mut job, command(revive));
        assert_eq!((job.attempt, job.ttl_from), (0, at(NOW)), "{revive}");
    }
    let mut delayed = job_in(State::Delayed);
    delayed.attempt = 2;
    run(&mut delayed, command("redrive"));
    assert_eq!((delayed.attempt, delayed.counters.kicks), (2, 1), "a kicked retry is still that retry");
}

#[test]
fn a_ttl_counts_from_where_the_job_was_put_or_moved_and_never_from_before_its_creation() {
    let mut released = job_in(State::Leased);
    let ttl_from = released.ttl_from;
    settle_with(&mut released, Verdict::Release { delay: Some(Delay::from_millis(700).unwrap()), priority: None });
    assert_eq!((released.due_at, released.ttl_from), (at(NOW + 700), ttl_from), "given back is not moved");

    let mut moved = job_in(State::Delayed);
    let change = Change { when: Some(When::At(at(5))), ..Change::default() };
    run(&mut moved, Command::Change { change: Box::new(change), force: false });
    assert_eq!((moved.due_at, moved.ttl_from), (at(5), moved.created_at));
}

#[test]
fn force_leaves_the_attempt_counted() {
    let mut job = job_in(State::Leased);
    run(&mut job, command("move_later_force"));
    assert_eq!(job.attempt, 1);
}

#[test]
fn a_change_touches_what_it_names_and_nothing_else() {
    let mut job = job_in(State::Delayed);
    job.options.ttl = Some(Ttl::from_millis(5).unwrap());
    let mut expected = job.clone();
    expected.version = version(9);
    expected.options.ttr = Some(Ttr::MIN);
    expected.options.ttl = None;
    let target = Target::new("https://example.com/a", "https://example.com:443").unwrap();
    expected.options.deliver_to = Some(target.clone());
    expected.options.retry = Some(RetryPolicy::default());
    expected.headers = Headers::new([("k".to_owned(), "v".to_owned())]).unwrap();
    let change = Change {
        ttr: Edit::Set(Ttr::MIN),
        ttl: Edit::Clear,
        retry: Edit::Set(RetryPolicy::default()),
        deliver_to: Edit::Set(target),
        headers: Some(expected.headers.clone()),
        priority: Some(job.priority),
        ..Change::default()
    };
    run(&mut job, Command::Change { change: Box::new(change), force: false });
    assert_eq!(job, expected);
}

#[test]
fn a_lease_that_runs_out_is_a_failure_at_that_instant_however_late_it_is_noticed() {
    let mut prompt = job_in(State::Leased);
    let end = lease_of(&prompt).expires_at;
    let mut late = prompt.clone();

    assert!(!pass(&mut prompt, end.as_millis() - 1).changed());
    let passage = pass(&mut prompt, end.as_millis());
    assert_eq!(passage, Passage { timed_out: true, ..Passage::default() });
    pass(&mut late, end.as_millis() + 5_000_000);
    assert_eq!(prompt, late);
    assert_eq!(prompt.due_at, end.plus(15_000));
    assert_eq!((prompt.attempt, prompt.counters.timeouts, prompt.version), (1, 1, version(9)));
    assert_eq!(prompt.last_error.as_ref().map(ErrorText::as_str), Some("lease expired"));
}

#[test]
fn a_token_is_worth_nothing_from_the_end_of_its_lease_on() {
    let mut job = job_in(State::Leased);
    let end = lease_of(&job).expires_at;
    let ack = Command::Settle { token: lease_of(&job).token, verdict: Verdict::Ack, delivery: None };
    let world = world();
    let moment = Moment { now: end.into(), ..world.moment() };
    assert_eq!(apply(&mut job, ack, &moment), Err(Refusal::LeaseLost));
}

#[test]
fn a_ttl_buries_what_waits_and_spares_what_is_held() {
    for state in [State::Delayed, State::Ready] {
        let mut job = with_ttl(state, NOW + 10);
        assert!(!pass(&mut job, NOW + 9).changed());
        assert_eq!(pass(&mut job, NOW + 50), Passage { buried: true, ..Passage::default() });
        assert_eq!(burial_of(&job), (NOW + 10, "expired"));
        assert_eq!(job.version, version(9), "that is a change");
    }
    let mut held = with_ttl(State::Leased, NOW);
    assert!(!pass(&mut held, NOW + 9).changed());
    settle_with(&mut held, Verdict::Release { delay: None, priority: None });
    assert_eq!(burial_of(&held), (NOW, "expired"), "the moment it is given back");

    let mut timed_out = with_ttl(State::Leased, NOW);
    let end = lease_of(&timed_out).expires_at.as_millis();
    assert_eq!(pass(&mut timed_out, end + 7), Passage { timed_out: true, buried: true, gone: false });
    assert_eq!(burial_of(&timed_out), (end, "expired"), "when its lease ended");
}

#[test]
fn what_is_past_its_ttl_is_not_leased_even_by_number() {
    let mut job = with_ttl(State::Ready, NOW);
    pass(&mut job, NOW);
    assert_eq!(burial_of(&job), (NOW, "expired"));
    let refused = apply(&mut job, command("lease_by_number"), &world().moment());
    assert_eq!(refused, Err(Refusal::NotReady));
}

#[test]
fn dead_letters_are_dropped_when_their_topic_says_so() {
    let mut world = world();
    world.policy.keep_buried = Some(Delay::from_millis(100).unwrap());
    let mut job = job_in(State::Buried);
    let Phase::Buried(burial) = &job.phase else { panic!("buried") };
    let end = burial.at.plus(100);
    assert_eq!(next_passage_at(&job, &world.moment().rules), Some(end));
    let before = Moment { now: Timestamp::from_millis(end.as_millis() - 1).unwrap().into(), ..world.moment() };
    assert!(!pass_time(&mut job, &before).changed());
    let passage = pass_time(&mut job, &Moment { now: end.into(), ..world.moment() });
    assert_eq!((passage.gone, passage.changed(), job.version), (true, true, version(9)));
}

#[test]
fn the_next_passage_is_when_something_happens() {
    let world = world();
    let rules = world.moment().rules;
    assert_eq!(next_passage_at(&job_in(State::Ready), &rules), None);
    assert_eq!(next_passage_at(&with_ttl(State::Ready, NOW + 7), &rules), Some(at(NOW + 7)));
    assert_eq!(next_passage_at(&job_in(State::Leased), &rules), Some(at(NOW + 29_000)));
    assert_eq!(next_passage_at(&job_in(State::Buried), &rules), None);
}

#[test]
fn deliveries_are_remembered_newest_last_and_bounded() {
    let mut job = job_in(State::Ready);
    job.options.retry = Some(RetryPolicy { attempts: NonZeroU32::MAX, backoff: Backoff::default() });
    for k in 0..limits::MAX_DELIVERIES as u64 + 5 {
        job.due_at = at(0);
        run(&mut job, command("lease"));
        let token = lease_of(&job).token;
        let delivery = Delivery { at: at(k), took: 1, status: Some(500), answer: DeliveryAnswer::default() };
        let verdict = Verdict::Nack { error: None, delay: Some(Delay::ZERO) };
        run(&mut job, Command::Settle { token, verdict, delivery: Some(delivery) });
    }
    assert_eq!(job.deliveries.len(), limits::MAX_DELIVERIES);
    assert_eq!(job.deliveries.last().map(|d| d.at), Some(at(24)));
    assert_eq!(job.deliveries[0].at, at(5));
}

#[test]
fn between_two_milliseconds_delays_round_up_and_what_is_due_rounds_down() {
    let world = world();
    let now = Now { at: at(NOW), up: at(NOW + 1) };
    let moment = Moment { now, ..world.moment() };
    let mut job = job_in(State::Leased);
    let before = job.clone();
    let cases = [("nack", NOW + 15_001), ("nack_at_once", NOW), ("release_delayed", NOW + 2), ("release", NOW - 5_000)];
    for (name, due_at) in cases {
        job = before.clone();
        assert_eq!(apply(&mut job, command(name), &moment), Ok(Effect::Lives));
        assert_eq!(job.due_at, at(due_at), "{name}");
    }
    job = before.clone();
    assert_eq!(apply(&mut job, command("extend"), &moment), Ok(Effect::Lives));
    assert_eq!(lease_of(&job).expires_at, at(NOW + 30_001));
}

// ---- the small world the tests live in ----

struct World {
    policy: TopicPolicy,
    defaults: Defaults,
}

impl World {
    fn moment(&self) -> Moment<'_> {
        let rules = Rules { policy: &self.policy, defaults: &self.defaults };
        Moment { now: at(NOW).into(), version: version(9), random: 0, rules }
    }
}

fn world() -> World {
    let steps = [15_000, 180_000].map(|step| Delay::from_millis(step).unwrap());
    let retry = Ladder::new(&steps).unwrap().into_policy();
    World { policy: TopicPolicy::default(), defaults: Defaults { ttr: Ttr::DEFAULT, retry } }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn version(value: u64) -> Version {
    Version::new(value).unwrap()
}

fn token() -> LeaseToken {
    LeaseToken { number: Number::new(7).unwrap(), version: version(3), secret: 42 }
}

fn word(state: State) -> &'static str {
    match state {
        State::Delayed => "delayed",
        State::Ready => "ready",
        State::Leased => "leased",
        State::Buried => "buried",
    }
}

/// A job in the given state at [`NOW`]; a leased one was leased a second ago for 30 s, in its first attempt.
fn job_in(state: State) -> Job {
    let new = NewJob::new(TopicName::new("t").unwrap(), JobId::new("a").unwrap(), When::At(at(NOW - 5_000)));
    let mut job = Job::create(new, Number::new(7).unwrap(), version(3), at(NOW - 10_000), 0).unwrap();
    match state {
        State::Delayed => job.due_at = at(NOW + 1),
        State::Ready => {}
        State::Leased => {
            job.attempt = 1;
            let ttr = Ttr::from_millis(30_000).unwrap();
            job.phase = Phase::Leased(Lease { token: token(), expires_at: at(NOW + 29_000), ttr, consumer: None });
        }
        State::Buried => bury(&mut job, Reason::own(Reason::BURIED), at(NOW - 1)),
    }
    job
}

/// The same, with a ttl that ends at `expires_at`.
fn with_ttl(state: State, expires_at: u64) -> Job {
    let mut job = job_in(state);
    job.ttl_from = at(expires_at - 10);
    job.options.ttl = Some(Ttl::from_millis(10).unwrap());
    job
}

fn command(name: &str) -> Command {
    let settle = |verdict| Command::Settle { token: token(), verdict, delivery: None };
    let change = |change, force| Command::Change { change: Box::new(change), force };
    let later = || Some(When::In(Delay::from_millis(500).unwrap()));
    let body = || Change { body: Some(Body::Json((*b"1").into())), ..Change::default() };
    let grant = |by_number| Command::Lease(Grant { ttr: None, secret: 1, consumer: None, by_number });
    let delay = |millis| Some(Delay::from_millis(millis).unwrap());
    let other = |token| Command::Settle { token, verdict: Verdict::Ack, delivery: None };
    match name {
        "lease" => grant(false),
        "lease_by_number" => grant(true),
        "ack" => settle(Verdict::Ack),
        "nack" | "nack_last_attempt" => settle(Verdict::Nack { error: None, delay: None }),
        "nack_at_once" => settle(Verdict::Nack { error: None, delay: delay(0) }),
        "release" => settle(Verdict::Release { delay: None, priority: None }),
        "release_delayed" => settle(Verdict::Release { delay: delay(1), priority: None }),
        "bury" => settle(Verdict::Bury { reason: None, priority: None }),
        "extend" => settle(Verdict::Extend { ttr: None }),
        "ack_other_secret" => other(LeaseToken { secret: 43, ..token() }),
        "ack_other_version" => other(LeaseToken { version: version(4), ..token() }),
        "change_body" => change(body(), false),
        "change_body_force" => change(body(), true),
        "change_too_large" => {
            let body = Body::Bytes(vec![0; limits::MAX_BODY + 1].into());
            change(Change { body: Some(body), ..Change::default() }, false)
        }
        "move_later" => change(Change { when: later(), ..Change::default() }, false),
        "move_later_force" => change(Change { when: later(), ..Change::default() }, true),
        "move_now" => change(Change { when: Some(When::NOW), ..Change::default() }, false),
        "move_too_far" => change(Change { when: Some(When::At(Timestamp::MAX)), ..Change::default() }, false),
        "cancel" => Command::Cancel { force: false },
        "cancel_force" => Command::Cancel { force: true },
        "redrive" => Command::Redrive { due_at: at(NOW) },
        "redrive_later" => Command::Redrive { due_at: at(NOW + 1) },
        _ => panic!("no command {name}"),
    }
}

fn run(job: &mut Job, command: Command) {
    assert_eq!(apply(job, command, &world().moment()), Ok(Effect::Lives));
}

fn settle_with(job: &mut Job, verdict: Verdict) {
    let token = lease_of(job).token;
    run(job, Command::Settle { token, verdict, delivery: None });
}

fn pass(job: &mut Job, now: u64) -> Passage {
    pass_time(job, &Moment { now: at(now).into(), ..world().moment() })
}

fn lease_of(job: &Job) -> &Lease {
    let Phase::Leased(lease) = &job.phase else { panic!("the job is not leased: {:?}", job.phase) };
    lease
}

fn burial_of(job: &Job) -> (u64, &str) {
    let Phase::Buried(burial) = &job.phase else { panic!("the job is not buried: {:?}", job.phase) };
    (burial.at.as_millis(), burial.reason.as_str())
}
