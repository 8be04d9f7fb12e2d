//! What delayed jobs cost: memory, and time when the server starts again.

use std::path::Path;

use beanstalk_protocol::{Command, Put, Reply};
use dwell_bench::Outcome;
use tokio::runtime::Builder;

use crate::load::Client;
use crate::peers::{Peer, SYNCED};
use crate::{Args, now, print};

/// Puts delayed jobs, kills the server and starts it again.
pub(crate) fn measure(args: &Args, binary: &Path, peers: &[&Peer]) -> Outcome<()> {
    print(&format!("\n| {} delayed jobs | memory a job, bytes | killed, and answering again after |", args.delayed))?;
    print("|---|--:|--:|")?;
    // What is synced how often makes no difference to what is kept, but a million syncs take an hour.
    for peer in peers.iter().filter(|peer| peer.name != SYNCED) {
        let directory = tempfile::tempdir_in(&args.directory)?;
        let mut server = peer.start(binary, directory.path())?;
        let before = server.process.memory()?;
        fill(args, &server.address)?;
        let each = (server.process.memory()? - before) * 1_024 / args.delayed as u64;
        server.process.kill()?;
        let again = if peer.keeps_jobs() {
            let start = now();
            let server = peer.start(binary, directory.path())?;
            answer(args, &server.address)?;
            format!("{:.2} s", start.elapsed().as_secs_f64())
        } else {
            "never: they are gone".to_owned()
        };
        print(&format!("| {} | {each} | {again} |", peer.name))?;
    }
    Ok(())
}

fn fill(args: &Args, address: &str) -> Outcome<()> {
    const PIPELINE: usize = 1_000;
    let body = vec![b'x'; args.body];
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::open(address).await?;
        let mut puts = Vec::new();
        for first in (0..args.delayed).step_by(PIPELINE) {
            puts.clear();
            let count = PIPELINE.min(args.delayed - first);
            for number in first..first + count {
                let delay = 86_400 + u32::try_from(number % 1_000_000)?;
                Put { priority: 1_024, delay, ttr: 60, size: 0 }.write(&body, &mut puts);
            }
            client.exchange(&puts, count, |reply| matches!(reply, Reply::Inserted(_))).await?;
        }
        Ok(())
    })
}

/// Asks for something that only a server with all its jobs can tell.
fn answer(args: &Args, address: &str) -> Outcome<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut stats = Vec::new();
    Command::Stats.write(&mut stats);
    let wanted = format!("current-jobs-delayed: {}\n", args.delayed);
    let has_all =
        |reply: &Reply<'_>| matches!(reply, Reply::Ok(text) if String::from_utf8_lossy(text).contains(&wanted));
    runtime.block_on(async { Client::open(address).await?.exchange(&stats, 1, has_all).await.map_err(Into::into) })
}
