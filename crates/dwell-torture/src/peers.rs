//! The same power cuts and dead disks for other queues, and for Dwell beside them.
//!
//! Jobs are put with an hour's delay, in pipelines or batches over four connections, and looked for one by one after the
//! restart. Nothing is consumed. Each queue has been started once before, and kills are there to see that a queue that
//! is merely killed loses nothing.

mod beanstalkd;
mod dwell;
mod redis;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

use crate::Outcome;
use crate::disk::{self, Disk, Kind};
use crate::run::Options;
use crate::server::{Process, bound_to_us, pause};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Power cuts of each
    #[arg(long, default_value_t = 3)]
    count: u32,
    /// Dead disks of each
    #[arg(long, default_value_t = 1)]
    dead: u32,
    /// The kind of file system
    #[arg(long, default_value = "ext4")]
    fs: Kind,
    /// Only those whose names contain this
    #[arg(long)]
    only: Option<String>,
}

/// A queue in one of its modes.
struct Peer {
    name: &'static str,
    /// The command that serves a directory at a port.
    command: fn(&Options, &Path, u16) -> Outcome<Vec<OsString>>,
    connect: fn(u16) -> Outcome<Box<dyn Connection>>,
    /// Jobs of a pipeline or batch: what syncs each of them gets few at a time, or none would be through in time.
    batch: u64,
}

/// A connection of a client.
trait Connection: Send {
    /// Puts a batch, numbered from `first`; the names under which what was acknowledged can be found.
    fn put(&mut self, first: u64, count: u64) -> Outcome<Vec<u64>>;
    /// How many of these are there.
    fn count(&mut self, names: &[u64]) -> Outcome<u64>;
}

const PEERS: [Peer; 5] = [
    Peer { name: "Dwell, default", command: dwell::command, connect: dwell::connect, batch: BATCH },
    Peer { name: "beanstalkd `-b`, default", command: beanstalkd::default, connect: beanstalkd::connect, batch: BATCH },
    Peer { name: "beanstalkd `-b -f0`", command: beanstalkd::always, connect: beanstalkd::connect, batch: 4 },
    Peer {
        name: "Redis, AOF `everysec` (default)",
        command: redis::every_second,
        connect: redis::connect,
        batch: BATCH,
    },
    Peer { name: "Redis, AOF `always`", command: redis::always, connect: redis::connect, batch: BATCH },
];

const CONNECTIONS: u64 = 4;
const BATCH: u64 = 100;

/// The name of no job.
const NOBODY: u64 = 999_999_999_999_999;

/// The seconds of delay of every job.
const HOUR: u64 = 3_600;

/// What the putters are told.
const ALIVE: u8 = 0;
/// What is answered from now on counts for nothing: a machine without power answers nothing.
const CUT: u8 = 1;
/// The disk has been dead for a while.
const DEAD: u8 = 2;
const OVER: u8 = 3;

/// What is done to a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    PowerCut,
    DeadDisk,
}

/// What came of some faults.
#[derive(Default)]
struct Sum {
    acknowledged: u64,
    /// Of these, into a disk that was dead for half a second.
    after: u64,
    lost: u64,
    not_started: u64,
}

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    if let Err(why) = disk::possible(args.fs) {
        println!("peers: skipped, {why}");
        return Ok(true);
    }
    println!(
        "| queue | fault | acknowledged | lost | acknowledged by a server without a disk |\n|---|---|---|---|---|"
    );
    let wanted = |peer: &&Peer| args.only.as_ref().is_none_or(|only| peer.name.contains(only));
    for peer in PEERS.iter().filter(wanted) {
        for (name, count, fault) in [
            ("kills", 1, Fault::Kill),
            ("power cuts", args.count, Fault::PowerCut),
            ("dead disks", args.dead, Fault::DeadDisk),
        ] {
            let mut sum = Sum::default();
            for _ in 0..count {
                let mut disk = Disk::new(args.fs, 2_048, &options.place())?;
                torture(peer, options, &mut disk, fault, &mut sum)
                    .await
                    .map_err(|error| format!("{}: {error}", peer.name))?;
            }
            let share = sum.lost * 1_000 / sum.acknowledged.max(1);
            let no_start =
                if sum.not_started > 0 { format!(", {} did not start again", sum.not_started) } else { String::new() };
            let after = if fault == Fault::DeadDisk { sum.after.to_string() } else { "–".to_owned() };
            println!(
                "| {} | {count} {name}{no_start} | {} | {} ({}.{} %) | {after} |",
                peer.name,
                sum.acknowledged,
                sum.lost,
                share / 10,
                share % 10
            );
        }
    }
    Ok(true)
}

async fn torture(peer: &Peer, options: &Options, disk: &mut Disk, fault: Fault, sum: &mut Sum) -> Outcome<()> {
    let data = disk.root().join("data");
    std::fs::create_dir(&data)?;
    // A first life, so that the files are there.
    drop(start(peer, options, &data)?.ok_or("it does not start")?);
    let (mut process, port) = start(peer, options, &data)?.ok_or("it does not start again")?;
    let phase = Arc::new(AtomicU8::new(ALIVE));
    let mut threads = Vec::new();
    for number in 0..CONNECTIONS {
        let (connection, phase, batch) = ((peer.connect)(port)?, Arc::clone(&phase), peer.batch);
        threads.push(thread::spawn(move || put_all(connection, number << 40, batch, &phase)));
    }
    sleep(Duration::from_millis(1_300)).await;
    if fault == Fault::PowerCut {
        phase.store(CUT, Ordering::SeqCst);
    }
    if fault != Fault::Kill {
        disk.cut()?;
    }
    if fault == Fault::DeadDisk {
        sleep(Duration::from_millis(500)).await;
        phase.store(DEAD, Ordering::SeqCst);
        sleep(Duration::from_secs(2)).await;
    }
    phase.store(OVER, Ordering::SeqCst);
    process.kill()?;
    let mut names = Vec::new();
    for thread in threads {
        let (put, after) = thread.join().map_err(|_| "a client broke")?;
        sum.after += after;
        names.extend(put);
    }
    drop(process);
    disk.remount()?;
    sum.acknowledged += names.len() as u64;
    let Some((_process, port)) = start(peer, options, &data)? else {
        sum.not_started += 1;
        sum.lost += names.len() as u64;
        return Ok(());
    };
    let mut connection = (peer.connect)(port)?;
    for names in names.chunks(1_000) {
        sum.lost += names.len() as u64 - connection.count(names)?;
    }
    Ok(())
}

/// Puts until told otherwise; what was acknowledged, and how much of it after the disk had died.
fn put_all(mut connection: Box<dyn Connection>, mut first: u64, batch: u64, phase: &AtomicU8) -> (Vec<u64>, u64) {
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let before = phase.load(Ordering::SeqCst);
        if before == OVER {
            return (names, after);
        }
        // What has no answer may or may not be there, and counts for nothing.
        let put = connection.put(first, batch).unwrap_or_default();
        if put.is_empty() {
            pause();
        }
        after += if before == DEAD { put.len() as u64 } else { 0 };
        if matches!(phase.load(Ordering::SeqCst), ALIVE | DEAD) {
            names.extend(put);
        }
        first += batch;
    }
}

/// Starts a queue; `None` if it ends instead of listening.
fn start(peer: &Peer, options: &Options, data: &Path) -> Outcome<Option<(Process, u16)>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let words = (peer.command)(options, data, port)?;
    let child = bound_to_us(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut process = Process(child);
    // It gives no signal when it can be used; loading what it has may take a while.
    for _ in 0..1_500 {
        if (peer.connect)(port).is_ok_and(|mut connection| connection.count(&[NOBODY]).is_ok()) {
            return Ok(Some((process, port)));
        }
        if !process.runs()? {
            return Ok(None);
        }
        pause();
    }
    Err("it neither listens nor ends".into())
}

/// A command line.
fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}
