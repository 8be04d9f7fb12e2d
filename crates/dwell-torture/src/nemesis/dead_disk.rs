//! A disk that dies under a running server, which goes on for a while.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::skipped;
use crate::Outcome;
use crate::checker::Wrong;
use crate::disk::{self, Disk, Kind};
use crate::fleet::Load;
use crate::history::Means;
use crate::run::{Options, Run, Stage};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How often
    #[arg(long, default_value_t = 3)]
    count: u32,
    /// The kind of file system
    #[arg(long, default_value = "ext4")]
    fs: Kind,
}

impl Default for Args {
    fn default() -> Self {
        Self { count: 1, fs: Kind::Ext4 }
    }
}

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let name = format!("{} dead disks ({:?})", args.count, args.fs).to_lowercase();
    if skipped(&name, &disk::possible(args.fs)) {
        return Ok(true);
    }
    let mut disk = Disk::new(args.fs, 1_024, &options.place())?;
    let mut run = Run::new(&name, Load::MIXED, options)?;
    run.keep_in(&disk.root().join("data"));
    let mut after = 0;
    for _ in 0..args.count {
        let mut stage = run.begin()?;
        stage.start()?;
        stage.load(Duration::from_millis(700)).await;
        stage.fault("dead disks", Means::Nothing);
        disk.cut()?;
        // What was on its way may have been synced; nothing that comes now can be.
        stage.load(Duration::from_millis(500)).await;
        let before = stage.fleet.stored();
        stage.load(Duration::from_secs(2)).await;
        after += stage.fleet.stored() - before;
        for what in health(&stage)? {
            run.wrong(Wrong::Odd, what);
        }
        stage.kill()?;
        disk.remount()?;
        stage.start()?;
        run.end(stage).await?;
    }
    if after > 0 {
        run.wrong(Wrong::AfterFailure, format!("{after} puts were acknowledged after the disk had died"));
    }
    println!("  {after} puts acknowledged by a server without a disk");
    Ok(run.finish())
}

/// What is wrong with how the server speaks of itself.
fn health(stage: &Stage) -> Outcome<Vec<String>> {
    let server = stage.server.as_ref().ok_or("there is no server")?;
    let address = server.client.url().trim_start_matches("http://").to_owned();
    let mut wrong = Vec::new();
    for (path, wanted) in [("/healthz", "200"), ("/readyz", "503"), ("/metrics", "200"), ("/v1/info", "503")] {
        let answer = get(&address, path)?;
        if answer.split_whitespace().nth(1) != Some(wanted) {
            let line = answer.lines().next().unwrap_or_default();
            wrong.push(format!("{path} of a server without a disk answers {line}, not {wanted}"));
        }
    }
    Ok(wrong)
}

/// What a server answers, head and all.
fn get(address: &str, path: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
