//! Very many jobs due in the same millisecond, consumed over HTTP; how much memory the server has then.

use std::path::Path;

use dwell_bench::Outcome;
use dwell_bench::calls::{drain, put_batch};
use dwell_bench::http::{request, run};
use dwell_bench::program::{now, print};
use dwell_bench::server::Server;

use crate::Args;
use crate::load::BATCH_CONNECTIONS;

/// Milliseconds until they are due: all of them are there by then.
const AHEAD: f64 = 20_000.0;

/// So long before that consumers begin to wait.
const BEFORE: f64 = 500.0;

/// What is asked: seconds, and mebibytes beside the memory for jobs.
const SECONDS: f64 = 10.0;
const BESIDE: u64 = 64;

/// Mebibytes of memory for jobs: what a server has that is not told anything.
const MEMORY: u64 = 256;

/// Puts them, and has them leased and acked by four consumers.
pub(crate) fn measure(args: &Args, binary: &Path) -> Outcome<()> {
    let directory = tempfile::tempdir_in(&args.directory)?;
    let server = Server::start_as_it_comes(binary, directory.path())?;
    let (body, size, jobs) = ("x".repeat(args.body), args.batch, args.herd / args.batch * args.batch);
    let due = (now() + AHEAD).ceil();
    let put = move |batch: usize| put_batch(batch * size, size, &format!("\"at\":{due}"), &body);
    run(&[&server.address], BATCH_CONNECTIONS, jobs / args.batch, put, b"HTTP/1.1 200")?;
    let left = due - now();
    if left < BEFORE {
        return Err("the herd was put too slowly; use fewer jobs".into());
    }
    // Until shortly before: what putting them took is not what is measured.
    let wait = format!("{{\"wait\":{:.0}}}", left - BEFORE);
    run(&[&server.address], 1, 1, move |_| request("POST", "/v1/topics/nothing/lease", &wait), b"HTTP/1.1 200")?;
    server.forget_peak()?;
    drain(&[&server.address], BATCH_CONNECTIONS, jobs, 1_000)?;
    let (took, peak) = ((now() - due) / 1_000.0, server.peak_memory()? >> 10);
    server.stop()?;
    let met = |met: bool| if met { "met" } else { "**not met**" };
    print(&format!(
        "\n{jobs} jobs due in one millisecond: all leased and acked after {took:.2} s (at most {SECONDS} s: {}), with at most \
         {peak} MiB of memory meanwhile (at most {} MiB: {})",
        met(took <= SECONDS),
        MEMORY + BESIDE,
        met(peak <= MEMORY + BESIDE)
    ))
}
