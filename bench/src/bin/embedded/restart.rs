//! Starting again after a kill, and memory a waiting job.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dwell_bench::memory;
use dwell_core::TopicsQuery;

use super::lateness::put_all;
use super::put::spread;
use super::world::{Figure, World, now, topic};

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let path = world.path("restart");
    let told = run_apart(world, &path, "fill");
    let begun = now();
    let store = world.open(&path.join("store"));
    let opened = begun.elapsed();
    let topics = world.runtime.block_on(store.topics(TopicsQuery::default())).expect("topics answers");
    let answered: Duration = begun.elapsed();
    let live: u64 = topics.iter().map(|topic| topic.counts.live()).sum();
    assert_eq!(live, world.jobs as u64, "nothing acknowledged is lost");
    let mut figures = vec![
        Figure::new("jobs waiting", world.jobs as f64, "jobs"),
        Figure::new("open after a kill", opened.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("first answer after a kill", answered.as_secs_f64() * 1_000.0, "ms"),
    ];
    figures.extend(told.into_iter().map(|(name, bytes)| Figure::new(name, bytes, "B")));
    figures.push(Figure::new("of that its body", world.body.len() as f64, "B"));
    figures
}

/// Runs this program with another command, which fills a directory and dies; what it has said.
pub(crate) fn run_apart(world: &World, path: &Path, command: &str) -> Vec<(String, f64)> {
    std::fs::create_dir_all(path).expect("a directory can be made");
    let program = std::env::current_exe().expect("this program has a path");
    let numbers = [("--jobs", world.jobs), ("--body", world.body.len()), ("--memory", world.memory >> 20)];
    let numbers = numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]);
    let output =
        Command::new(program).args(numbers).arg("--directory").arg(path).arg(command).stderr(Stdio::inherit()).output();
    let output = String::from_utf8(output.expect("the filling program runs").stdout).expect("it prints text");
    let told = output.lines().filter_map(|line| line.rsplit_once(": "));
    told.map(|(name, value)| (name.to_owned(), value.parse().expect("it says numbers"))).collect()
}

/// Fills a directory and dies without a word.
pub(crate) fn fill(world: &World, directory: &Path) -> ! {
    let before = memory::resident_bytes();
    let store = world.open(&directory.join("store"));
    world.runtime.block_on(put_all(world, &*store, &topic("waiting"), world.jobs, |id| 3_600_000 + spread(id)));
    let grown = memory::resident_bytes() - before;
    say(&format!("memory a waiting job: {}", grown as f64 / world.jobs as f64));
    std::process::abort();
}

#[expect(clippy::print_stdout, reason = "this is how the measuring program hears of it")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
