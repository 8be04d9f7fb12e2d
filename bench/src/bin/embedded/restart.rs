//! Starting again after a kill, and memory a waiting job.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dwell_bench::memory;
use dwell_core::TopicsQuery;

use super::figure::Figure;
use super::lateness::put_all;
use super::put::spread;
use super::world::{World, now, topic};

/// What a filling program says last.
const FILLED: &str = "filled";

const SIGKILL: i32 = 9;

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let path = world.path("restart");
    let told = run_apart(world, &path, &["fill"]);
    let begun = now();
    let store = world.open(&path.join("store"));
    let opened = begun.elapsed();
    let topics = world.runtime.block_on(store.topics(TopicsQuery::default())).expect("topics answers");
    let answered: Duration = begun.elapsed();
    let live: u64 = topics.iter().map(|topic| topic.counts.live()).sum();
    assert_eq!(live, world.jobs as u64, "nothing acknowledged is lost");
    vec![
        Figure::new("jobs waiting", world.jobs as f64, "jobs"),
        Figure::new("open after a kill", opened.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("first answer after a kill", answered.as_secs_f64() * 1_000.0, "ms"),
        Figure::new(MEMORY, told.of(MEMORY), "B"),
        Figure::new("of that its body", world.body.len() as f64, "B"),
    ]
}

const MEMORY: &str = "memory a waiting job";

/// What a filling program has said.
pub(crate) struct Told(Vec<(String, f64)>);

impl Told {
    pub(crate) fn of(&self, name: &str) -> f64 {
        self.0.iter().find(|(other, _)| other == name).map_or(f64::NAN, |(_, value)| *value)
    }

    fn read(&mut self, line: &str) {
        let (name, value) = line.rsplit_once(": ").expect("a name and a number");
        self.0.push((name.to_owned(), value.parse().expect("a number")));
    }
}

/// Runs this program with another command, which fills a directory, and kills it (`kill -9`) when it has; what it has said.
pub(crate) fn run_apart(world: &World, path: &Path, command: &[&str]) -> Told {
    std::fs::create_dir_all(path).expect("a directory can be made");
    let program = std::env::current_exe().expect("this program has a path");
    let numbers = [("--jobs", world.jobs), ("--body", world.body.len()), ("--memory", world.memory >> 20)];
    let numbers = numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]);
    let mut filling = Command::new(program);
    filling.args(command).args(numbers).arg("--directory").arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut filling = filling.spawn().expect("the filling program runs");
    let output = filling.stdout.take().expect("its output is read");
    let mut told = Told(Vec::new());
    let mut filled = false;
    for line in BufReader::new(output).lines() {
        let line = line.expect("it prints text");
        filled = line == FILLED;
        if filled {
            break;
        }
        told.read(&line);
    }
    filling.kill().expect("it can be killed");
    let ended = filling.wait().expect("it ends");
    assert!(filled && ended.signal() == Some(SIGKILL), "the filling program has failed: {ended}");
    told
}

/// Fills a directory and waits to be killed.
pub(crate) fn fill(world: &World, directory: &Path) -> ! {
    let before = memory::resident_bytes();
    let store = world.open(&directory.join("store"));
    world.runtime.block_on(put_all(world, &*store, &topic("waiting"), world.jobs, |id| 3_600_000 + spread(id)));
    let grown = memory::resident_bytes() - before;
    say(MEMORY, grown as f64 / world.jobs as f64);
    wait_for_the_end()
}

/// Tells the measuring program.
#[expect(clippy::print_stdout, reason = "this is how the measuring program hears of it")]
pub(crate) fn say(name: &str, value: f64) {
    println!("{name}: {value}");
}

/// Tells the measuring program that it is time to kill this one. If that one dies first, so does this.
#[expect(clippy::print_stdout, reason = "this is how the measuring program hears of it")]
pub(crate) fn wait_for_the_end() -> ! {
    println!("{FILLED}");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let mut told = Told(Vec::new());
        told.read("durable puts, tenth 1: 12.5");
        told.read("a: b: 3");
        assert_eq!(["durable puts, tenth 1", "a: b"].map(|name| told.of(name).to_string()), ["12.5", "3"]);
        assert!(told.of("tenth 2").is_nan());
    }
}
