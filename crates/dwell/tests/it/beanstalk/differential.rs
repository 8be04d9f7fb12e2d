//! The same commands to a real beanstalkd and to Dwell: every reply is the same, but for the known differences.
//!
//! `beanstalkd` must be installed (on Debian: `apt-get install beanstalkd`). Seeds are the same in every run;
//! `DIFFERENTIAL_SEED=7` runs that one alone.

mod compare;
mod differences;
mod pair;
mod random;

use self::differences::DIFFERENCES;
use self::pair::Pair;
use self::random::Random;

/// Sequences, and commands of each.
const SEEDS: u64 = 60;
const COMMANDS: usize = 150;

#[test]
fn random_commands_get_the_same_replies() {
    let one = std::env::var("DIFFERENTIAL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut pair = Pair::start();
        let mut random = Random::new(seed);
        for _ in 0..COMMANDS {
            if let Err(difference) = pair.step(&mut random) {
                panic!("seed {seed}: {difference}\n{}", pair.history.join("\n"));
            }
        }
    }
}

/// What needs time or waiting, which random sequences do without: a beanstalkd to which something was sent behind a
/// reserve that waits forgets to take jobs away. Letters are connections, `#` begins a note.
#[test]
fn conversations_that_take_time_go_the_same_way() {
    let scripts = [
        // A warning a second before the end, then the job is anybody's again.
        "A put 0 0 4 1|x; A reserve; A reserve; B reserve; A touch 1; A delete 1; A stats-job 1; B delete 1",
        // With one second there is never time to wait.
        "A put 0 0 0 1|x; A stats-job 1; A reserve; A reserve-with-timeout 5; A touch 1; A reserve; A release 1 5 0; A stats-job 1",
        // Delays and pauses end.
        "A put 0 1 60 1|x; A peek-delayed; A reserve-with-timeout 3; A release 1 0 1; A reserve-with-timeout 3; A delete 1",
        "A put 0 0 60 1|x; A pause-tube default 1; A reserve-with-timeout 0; A reserve-with-timeout 3; A pause-tube default 0",
        // A tube is there as long as someone has it.
        "A use x; B stats-tube x; A put 0 0 60 1|y; A use default; B list-tubes; B delete 1; B list-tubes; B stats-tube x",
        "A watch x; A ignore default; A ignore x; B list-tubes; A list-tubes-watched; A reserve-with-timeout 1",
        "A reserve-job 1; A put 0 1000 60 1|x; A reserve-job 1; A stats-job 1; A release 1 3 0; A peek-ready; A bury 1 0",
    ];
    for script in scripts {
        let mut pair = Pair::start();
        for line in script.split(';') {
            if let Err(difference) = pair.say(line.trim()) {
                panic!("{difference}\n{}", pair.history.join("\n"));
            }
        }
    }
}

/// Each known difference is one: it shows, and the guide tells of it.
#[test]
fn known_differences_are_differences_and_in_the_guide() {
    let guide = include_str!("../../../../../docs/guides/beanstalk.md");
    for difference in DIFFERENCES {
        assert!(guide.contains(difference.what), "the guide does not tell: {}", difference.what);
        let mut pair = Pair::start();
        pair.be_strict();
        let mut differs = false;
        for line in difference.shown_by.split(';') {
            differs |= pair.say(line.trim()).is_err();
        }
        assert!(differs, "no difference any more: {}\n{}", difference.what, pair.history.join("\n"));
    }
}
