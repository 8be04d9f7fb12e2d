//! Starting again after a kill, and memory a waiting job.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dwell_bench::memory;
use dwell_core::TopicsQuery;

use super::lateness::put_all;
use super::put::spread;
use super::world::{Figure, World, now, open, topic};

pub(crate) fn measure(world: &World) -> Vec<Figure> {
    let path = world.path("restart");
    let program = std::env::current_exe().expect("this program has a path");
    let body = world.body.len().to_string();
    let arguments = ["--jobs", &world.jobs.to_string(), "--body", &body, "--json", "--directory"];
    std::fs::create_dir_all(&path).expect("a directory can be made");
    let output = Command::new(program).args(arguments).arg(&path).arg("fill").stderr(Stdio::inherit()).output();
    let output = String::from_utf8(output.expect("the filling program runs").stdout).expect("it prints text");
    let bytes = output.lines().find_map(|line| line.strip_prefix("bytes ")).and_then(|n| n.parse().ok());

    let begun = now();
    let store = open(&path.join("store"));
    let opened = begun.elapsed();
    let topics = world.runtime.block_on(store.topics(TopicsQuery::default())).expect("topics answers");
    let answered: Duration = begun.elapsed();
    let live: u64 = topics.iter().map(|topic| topic.counts.live()).sum();
    assert_eq!(live, world.jobs as u64, "nothing acknowledged is lost");
    vec![
        Figure::new("jobs waiting", world.jobs as f64, "jobs"),
        Figure::new("open after a kill", opened.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("first answer after a kill", answered.as_secs_f64() * 1_000.0, "ms"),
        Figure::new("memory a waiting job", bytes.unwrap_or(0.0), "B"),
        Figure::new("of that its body", world.body.len() as f64, "B"),
    ]
}

/// Fills a directory and dies without a word.
pub(crate) fn fill(directory: &Path, jobs: usize, body: usize) -> Vec<Figure> {
    let world = World::new(directory, jobs, body).expect("a directory can be made");
    let before = memory::resident_bytes();
    let store = open(&directory.join("store"));
    world.runtime.block_on(put_all(&world, &*store, &topic("waiting"), jobs, |id| 3_600_000 + spread(id)));
    let grown = memory::resident_bytes() - before;
    say(&format!("bytes {}", grown as f64 / jobs as f64));
    std::process::abort();
}

#[expect(clippy::print_stdout, reason = "this is how the measuring program hears of it")]
fn say(text: &str) {
    println!("{text}");
}
