//! Whether this machine can carry a server: file handles, and the disk under its directory.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use dwell_store_embedded::storage::OpenDirError;
use dwell_store_embedded::{OpenError, check_directory};
use rustix::process::{Resource, getrlimit};
use tokio::time::Instant;

use super::Finding;
use crate::output;
use crate::verbs::repair::what_is_wrong;

/// Where a server's data is unless it is told otherwise.
const USUAL: &str = "dwell-data";

/// File handles that a server takes for the connections that it allows, and beside them.
const HANDLES: u64 = 16_384 + 2_304;

/// Less free disk than this is too little.
const LITTLE: u64 = 1 << 30;

/// A sync that takes longer makes puts slow.
const SLOW: Duration = Duration::from_millis(20);

/// Syncs that are tried.
const SYNCS: usize = 20;

pub(super) fn check(directory: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![handles()];
    match directory {
        Some(directory) => {
            findings.extend(disk(directory));
            findings.extend(directory.is_dir().then(|| jobs(directory)));
        }
        None if Path::new(USUAL).is_dir() => findings.extend(disk(Path::new(USUAL))),
        None => {
            let said = "no ./dwell-data here; --data-dir DIR looks at the disk of a server on this machine";
            findings.push(Finding::note("disk", said.to_owned()));
        }
    }
    findings
}

/// A server raises its own limit as far as it may.
fn handles() -> Finding {
    let said = |most: &str| format!("a server started from here may have {most} files and connections");
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < HANDLES => {
            let fix = format!("for all that it allows, raise the limit to {HANDLES} (ulimit -Hn, LimitNOFILE=)");
            Finding::note("handles", format!("{}; {fix}", said(&most.to_string())))
        }
        most => Finding::of("handles", Ok(said(&most.map_or("any number of".to_owned(), |most| most.to_string())))),
    }
}

fn disk(directory: &Path) -> Vec<Finding> {
    let name = directory.display();
    let cannot = |check, error: io::Error| Finding::of(check, Err(format!("cannot look at {name}: {error}")));
    let metadata = match directory.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return vec![cannot("files", error)],
    };
    let free = match rustix::fs::statvfs(directory) {
        Ok(stat) => room(directory, stat.f_bavail.saturating_mul(stat.f_frsize)),
        Err(error) => cannot("disk", error.into()),
    };
    let mut findings = vec![free, Finding::of("files", modes(directory, &metadata))];
    findings.push(match sync_time(directory) {
        Ok(took) if took > SLOW => {
            Finding::note("sync", format!("a sync takes {} ms here: every answer waits for one; a disk of its own, or one with a protected cache, is faster", took.as_millis()))
        }
        Ok(took) => Finding::of("sync", Ok(format!("a sync takes {} µs here", took.as_micros()))),
        Err(error) => cannot("sync", error),
    });
    findings
}

fn room(directory: &Path, free: u64) -> Finding {
    let said = format!("{} MiB are free under {}", free >> 20, directory.display());
    let found = if free < LITTLE { Err(format!("{said}; make room, or puts will be refused")) } else { Ok(said) };
    Finding::of("disk", found)
}

/// Whether every job in there is where it will be found. A directory that a server uses is not looked into.
fn jobs(directory: &Path) -> Finding {
    const CHECK: &str = "jobs";
    match check_directory(directory) {
        Ok(checked) => {
            let (jobs, topics) = (output::counted(checked.jobs, "job"), output::counted(checked.topics, "topic"));
            let good = format!("{jobs} of {topics}, each in exactly one order");
            Finding::of(CHECK, what_is_wrong(&checked).map_or(Ok(good), Err))
        }
        Err(OpenError::Directory(OpenDirError::InUse { .. })) => Finding::note(
            CHECK,
            "a server is using them; once it has stopped, dwell repair DIR --check looks at each".to_owned(),
        ),
        Err(OpenError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Finding::note(CHECK, "there are none yet".to_owned())
        }
        Err(error) => Finding::of(CHECK, Err(error.to_string())),
    }
}

/// What is in there is for its owner alone.
fn modes(directory: &Path, metadata: &std::fs::Metadata) -> Result<String, String> {
    let name = directory.display();
    let open = |metadata: &std::fs::Metadata| metadata.permissions().mode() & 0o077 != 0;
    if open(metadata) {
        let mode = metadata.permissions().mode() & 0o777;
        return Err(format!("others may look into {name} (mode {mode:o}); chmod 700 {name}"));
    }
    for entry in directory.read_dir().map_err(|error| format!("cannot read {name}: {error}"))? {
        let entry = entry.map_err(|error| format!("cannot read {name}: {error}"))?;
        let Ok(inside) = entry.metadata() else { continue };
        if inside.is_file() && inside.uid() != metadata.uid() {
            let file = entry.path().display().to_string();
            return Err(format!("{file} belongs to another user than {name}; chown -R --reference={name} {name}"));
        }
    }
    Ok(format!("{name} is for its owner alone"))
}

/// How long a small write and its sync take: the middle of some. The file has no name, so nobody meets it.
fn sync_time(directory: &Path) -> io::Result<Duration> {
    let mut file: File = tempfile::tempfile_in(directory)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[0; 4_096])?;
        let begun = Instant::now();
        file.sync_data()?;
        took.push(begun.elapsed());
    }
    took.sort();
    Ok(took[SYNCS / 2])
}
