//! `dwell`: the server and its command line.

mod cli;
mod exit;
mod output;
mod serve;
mod verbs;

use std::process::ExitCode;

/// Long-lived servers with many small allocations: jemalloc gives memory back and keeps threads apart.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match cli::parse() {
        Ok(command) => cli::run(&command),
        Err(usage) => usage.exit(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
