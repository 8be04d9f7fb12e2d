use proptest::prelude::*;

use super::*;

/// Two clocks and the timeline between them.
struct Clocks {
    /// In microseconds.
    wall: i64,
    monotonic: i64,
    timeline: Timeline,
}

/// Where the clocks of the tests begin: some day in 2030, three hours after the machine's start.
const BEGIN: i64 = 1_900_000_000 * MICROS_A_SECOND;
const UP: i64 = 3 * 3_600 * MICROS_A_SECOND;
const HOUR: i64 = 3_600 * MICROS_A_SECOND;

fn at(micros: i64) -> Timestamp {
    timestamp(micros)
}

fn since(micros: i64) -> Duration {
    Duration::from_micros(micros.cast_unsigned())
}

impl Clocks {
    fn new() -> Self {
        let timeline = Timeline::start(at(BEGIN), since(UP), None, false).unwrap();
        Self { wall: BEGIN, monotonic: UP, timeline }
    }

    /// Both clocks run on.
    fn run(&mut self, micros: i64) {
        self.wall += micros;
        self.monotonic += micros;
    }

    /// T in microseconds.
    fn t(&mut self) -> i64 {
        self.timeline.advance(since(self.monotonic))
    }

    fn check(&mut self) -> ClockReport {
        self.timeline.check(at(self.wall), since(self.monotonic))
    }

    /// Checks once a second for so long, and says what each check found.
    fn seconds(&mut self, count: usize) -> Vec<ClockAction> {
        (0..count)
            .map(|_| {
                self.run(MICROS_A_SECOND);
                self.check().action
            })
            .collect()
    }
}

#[test]
fn it_starts_at_the_later_of_wall_and_mark() {
    let start = |mark: i64| Timeline::start(at(BEGIN), since(UP), Some(at(mark)), false);
    let now = |timeline: Result<Timeline, ClockBehind>| timeline.unwrap().now(since(UP));
    assert_eq!(now(start(BEGIN - HOUR)), at(BEGIN));
    assert_eq!(now(start(BEGIN + 5_000)), at(BEGIN + 5_000));
    assert_eq!(now(start(BEGIN + HOUR)), at(BEGIN + HOUR));
    assert_eq!(now(Timeline::start(at(BEGIN), since(UP), None, false)), at(BEGIN));
}

#[test]
fn a_wall_far_behind_the_mark_is_refused_unless_accepted() {
    let (wall, mark) = (at(BEGIN), at(BEGIN + HOUR + 1_000));
    let error = Timeline::start(wall, since(UP), Some(mark), false).unwrap_err();
    assert_eq!(error, ClockBehind { wall, mark });
    let text = error.to_string();
    assert!(text.starts_with("the clock is 3600 s behind") && text.contains("--accept-clock"), "{text}");
    let mut accepted = Timeline::start(wall, since(UP), Some(mark), true).unwrap();
    assert_eq!(accepted.now(since(UP)), mark);
    let report = accepted.check(at(BEGIN + MICROS_A_SECOND), since(UP + MICROS_A_SECOND));
    assert_eq!(report, ClockReport { gap: 3_600_001, action: ClockAction::WaitsForWall });
}

#[test]
fn it_is_carried_by_the_monotonic_clock_alone() {
    let mut clocks = Clocks::new();
    for step in [1, 999, 1_000, 123_456_789] {
        clocks.run(step);
        clocks.wall += 77 * MICROS_A_SECOND;
        assert_eq!(clocks.t(), BEGIN + clocks.monotonic - UP);
    }
}

#[test]
fn it_rounds_down_for_what_is_due_and_up_for_delays() {
    let mut clocks = Clocks::new();
    for (step, down, up) in [(0, 0, 0), (1, 0, 1), (998, 0, 1), (1, 1, 1), (1, 1, 2)] {
        clocks.run(step);
        let monotonic = since(clocks.monotonic);
        assert_eq!(clocks.timeline.now(monotonic), at(BEGIN + down * 1_000));
        assert_eq!(clocks.timeline.now_rounded_up(monotonic), at(BEGIN + up * 1_000));
    }
}

#[test]
fn a_reading_from_the_past_turns_nothing_back() {
    let mut clocks = Clocks::new();
    clocks.run(10 * MICROS_A_SECOND);
    assert_eq!(clocks.t(), BEGIN + 10 * MICROS_A_SECOND);
    let earlier = since(UP + MICROS_A_SECOND);
    assert_eq!(clocks.timeline.now(earlier), at(BEGIN + 10 * MICROS_A_SECOND));
    clocks.timeline.check(at(BEGIN + 10 * MICROS_A_SECOND), earlier);
    assert_eq!(clocks.timeline.now(Duration::ZERO), at(BEGIN + 10 * MICROS_A_SECOND));
}

#[test]
fn agreement_is_left_alone_within_the_millisecond_the_wall_shows() {
    let mut clocks = Clocks::new();
    for _ in 0..100 {
        clocks.run(1_000_700);
        let report = clocks.check();
        assert_eq!(report.action, ClockAction::Agrees);
        assert!(report.gap == 0, "{report:?}");
    }
    assert_eq!(clocks.t(), clocks.wall);
}

#[test]
fn a_small_lead_of_the_wall_is_closed_at_one_percent() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall += MICROS_A_SECOND;
    assert_eq!(clocks.check(), ClockReport { gap: -1_000, action: ClockAction::Slews });
    let before = clocks.t();
    clocks.run(MICROS_A_SECOND);
    assert_eq!(clocks.t() - before, 1_010_000);
    assert!(clocks.seconds(98).iter().all(|&action| action == ClockAction::Slews));
    clocks.run(MICROS_A_SECOND);
    assert_eq!(clocks.check(), ClockReport { gap: 0, action: ClockAction::Agrees });
    assert_eq!(clocks.t(), clocks.wall);
}

#[test]
fn a_small_lag_of_the_wall_is_closed_at_one_percent() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall -= MICROS_A_SECOND;
    assert_eq!(clocks.check(), ClockReport { gap: 1_000, action: ClockAction::Slews });
    let before = clocks.t();
    clocks.run(MICROS_A_SECOND);
    assert_eq!(clocks.t() - before, 990_000);
    clocks.seconds(99);
    assert!((clocks.t() - clocks.wall).abs() < 1_000);
    assert_eq!(clocks.seconds(1), [ClockAction::Agrees]);
}

#[test]
fn steering_ends_by_itself_when_nobody_checks() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall += MICROS_A_SECOND / 2;
    clocks.check();
    clocks.run(HOUR);
    assert_eq!(clocks.t(), clocks.wall);
}

#[test]
fn a_wall_set_back_never_turns_it_back_and_delays_stay_exact() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall -= HOUR;
    let before = clocks.t();
    assert_eq!(clocks.check(), ClockReport { gap: 3_600_000, action: ClockAction::WaitsForWall });
    assert_eq!(clocks.t(), before);
    clocks.run(10 * MICROS_A_SECOND);
    assert_eq!(clocks.t() - before, 9_900_000);
    assert!(clocks.seconds(1_000).iter().all(|&action| action == ClockAction::WaitsForWall));
    // A hundred hours to lose one.
    clocks.seconds(100 * 3_600 - 1_010 + 2);
    assert!((clocks.t() - clocks.wall).abs() < 1_000);
}

#[test]
fn a_wall_set_forward_is_taken_after_thirty_seconds() {
    for by in [MICROS_A_SECOND + 1_000, HOUR, 24 * HOUR] {
        let mut clocks = Clocks::new();
        clocks.run(MICROS_A_SECOND);
        clocks.wall += by;
        assert_eq!(clocks.check(), ClockReport { gap: -by / 1_000, action: ClockAction::WatchesStep });
        assert_eq!(clocks.seconds(29), [ClockAction::WatchesStep; 29]);
        assert_eq!(clocks.t(), BEGIN + 30 * MICROS_A_SECOND, "it runs as always while it watches");
        clocks.run(MICROS_A_SECOND);
        let by = (by / 1_000).cast_unsigned();
        assert_eq!(clocks.check(), ClockReport { gap: 0, action: ClockAction::TookStep { by } });
        assert_eq!(clocks.t(), clocks.wall);
        assert_eq!(clocks.seconds(5), [ClockAction::Agrees; 5]);
    }
}

#[test]
fn a_wall_that_does_not_stay_where_it_was_set_is_watched_anew() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall += HOUR;
    clocks.seconds(29);
    clocks.wall += MICROS_A_SECOND;
    assert_eq!(clocks.seconds(30), [ClockAction::WatchesStep; 30]);
    assert!(matches!(clocks.seconds(1)[..], [ClockAction::TookStep { .. }]));

    // Set back in between: the agreement is forgotten, also if it comes back.
    clocks.wall += HOUR;
    clocks.seconds(29);
    clocks.wall -= HOUR;
    assert_eq!(clocks.seconds(1), [ClockAction::Agrees]);
    clocks.wall += HOUR;
    assert_eq!(clocks.seconds(30), [ClockAction::WatchesStep; 30]);
}

#[test]
fn a_wall_that_is_steered_a_little_still_agrees() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall += HOUR;
    clocks.check();
    for _ in 0..30 {
        clocks.wall += 500;
        clocks.run(MICROS_A_SECOND);
        clocks.check();
    }
    assert_eq!(clocks.t() / 1_000, clocks.wall / 1_000);
}

#[test]
fn a_jump_of_more_than_a_day_is_never_taken() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall += 24 * HOUR + 1_000;
    let report = clocks.check();
    assert_eq!(report, ClockReport { gap: -86_400_001, action: ClockAction::RefusesStep });
    assert!(clocks.seconds(10_000).iter().all(|&action| action == ClockAction::RefusesStep));
    assert_eq!(clocks.t(), BEGIN + 10_001 * MICROS_A_SECOND);
    // Not even what was nearly believed before counts any more.
    clocks.wall -= HOUR;
    assert_eq!(clocks.seconds(29), [ClockAction::WatchesStep; 29]);
    clocks.wall += HOUR;
    assert_eq!(clocks.seconds(1), [ClockAction::RefusesStep]);
    clocks.wall -= HOUR;
    assert_eq!(clocks.seconds(30), [ClockAction::WatchesStep; 30]);
    clocks.wall += HOUR;
    // Set right, nearly.
    clocks.wall -= 23 * HOUR;
    assert_eq!(clocks.seconds(30), [ClockAction::WatchesStep; 30]);
    assert!(matches!(clocks.seconds(1)[..], [ClockAction::TookStep { .. }]));
}

#[test]
fn checks_in_quick_succession_do_not_lose_the_steering() {
    let mut clocks = Clocks::new();
    clocks.run(MICROS_A_SECOND);
    clocks.wall += MICROS_A_SECOND / 100;
    clocks.check();
    for _ in 0..100_000 {
        clocks.run(37);
        clocks.check();
    }
    assert!((clocks.t() - clocks.wall).abs() < 1_000, "{}", clocks.t() - clocks.wall);
}

#[test]
fn the_ends_of_time_are_no_trouble() {
    let mut timeline = Timeline::start(Timestamp::MAX, Duration::MAX, None, false).unwrap();
    assert_eq!(timeline.now(Duration::MAX), Timestamp::MAX);
    let mut timeline = Timeline::start(Timestamp::MAX, Duration::ZERO, None, false).unwrap();
    assert_eq!(timeline.now_rounded_up(Duration::MAX), Timestamp::MAX);
    timeline.check(Timestamp::EPOCH, Duration::MAX);
    timeline.check(Timestamp::MAX, Duration::MAX);
    assert_eq!(timeline.now(Duration::MAX), Timestamp::MAX);
    let mut timeline = Timeline::start(Timestamp::EPOCH, Duration::ZERO, None, false).unwrap();
    timeline.check(Timestamp::MAX, Duration::from_secs(1));
    timeline.check(Timestamp::EPOCH, Duration::from_secs(2));
    assert_eq!(timeline.now(Duration::from_secs(2)), at(2 * MICROS_A_SECOND));
}

/// What happens to the clocks.
#[derive(Clone, Debug)]
enum Happening {
    /// Both run for so many microseconds.
    Run(i64),
    /// The wall clock is set by so many.
    Set(i64),
    /// T is asked for, by a reading this old.
    ColdRead(i64),
    Check,
    /// A minute in which nobody touches the wall clock and each second is checked.
    Quiet,
}

fn happening() -> impl Strategy<Value = Happening> {
    let small = -2 * MICROS_A_SECOND..2 * MICROS_A_SECOND;
    prop_oneof![
        3 => (0..3 * MICROS_A_SECOND).prop_map(Happening::Run),
        1 => (0..100_000_i64).prop_map(Happening::Run),
        1 => (-24 * HOUR..24 * HOUR).prop_map(Happening::Set),
        1 => small.prop_map(Happening::Set),
        2 => (0..MICROS_A_SECOND).prop_map(Happening::ColdRead),
        4 => Just(Happening::Check),
        1 => Just(Happening::Quiet),
    ]
}

/// Does it, and holds T to its promises.
fn happen(clocks: &mut Clocks, happening: &Happening) -> Result<(), TestCaseError> {
    match *happening {
        Happening::Run(micros) => clocks.run(micros),
        Happening::Set(micros) => clocks.wall = (clocks.wall + micros).max(0),
        Happening::ColdRead(age) => {
            let before = clocks.t();
            let asked = clocks.timeline.advance(since(clocks.monotonic - age));
            prop_assert_eq!(asked, before);
        }
        Happening::Check => {
            let before = clocks.t();
            let ahead = wall_ahead(at(clocks.wall), before);
            let report = clocks.check();
            let jump = clocks.t() - before;
            match report.action {
                ClockAction::TookStep { .. } if jump > 0 => {
                    prop_assert_eq!(jump, ahead);
                    prop_assert!(jump > SLEW_LIMIT && jump <= STEP_LIMIT);
                }
                _ => prop_assert_eq!(jump, 0),
            }
        }
        Happening::Quiet => {
            for _ in 0..60 {
                happen(clocks, &Happening::Run(MICROS_A_SECOND))?;
                happen(clocks, &Happening::Check)?;
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_never_falls_never_runs_away_and_meets_the_wall_in_the_end(
        happenings in prop::collection::vec(happening(), 1..60),
    ) {
        let mut clocks = Clocks::new();
        for happening in &happenings {
            let (t, monotonic) = (clocks.t(), clocks.monotonic);
            happen(&mut clocks, happening)?;
            if let Happening::Run(_) = happening {
                let (ran, elapsed) = (clocks.t() - t, clocks.monotonic - monotonic);
                // Rounding is at both ends of the range.
                prop_assert!(ran >= elapsed - elapsed / SLEW_PARTS - 1, "{ran} of {elapsed}");
                prop_assert!(ran <= elapsed + elapsed / SLEW_PARTS + 1, "{ran} of {elapsed}");
                prop_assert!(ran >= 0);
            }
            prop_assert!(clocks.t() >= t);
        }
        // Quiet for as long as it takes to lose the lead at 1 %, or to be believed.
        happen(&mut clocks, &Happening::Run(MICROS_A_SECOND))?;
        happen(&mut clocks, &Happening::Check)?;
        let ahead = clocks.wall - clocks.t();
        prop_assume!(ahead <= STEP_LIMIT);
        let mut left = ahead.abs() * SLEW_PARTS + 40 * MICROS_A_SECOND;
        while left > 0 {
            let step = if left > HOUR { HOUR } else { MICROS_A_SECOND };
            happen(&mut clocks, &Happening::Run(step))?;
            happen(&mut clocks, &Happening::Check)?;
            left -= step;
        }
        happen(&mut clocks, &Happening::Run(2 * MICROS_A_SECOND))?;
        prop_assert!((clocks.t() - clocks.wall).abs() <= 1_000, "{} off", clocks.t() - clocks.wall);
    }
}
