//! The bare loop: append so many bytes to a growing file, sync, again.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use super::world::{World, now, percentile, rate};

/// What the disk gives to somebody who does nothing else.
pub(crate) struct Raw {
    /// Jobs' worth of bytes a second.
    pub(crate) rate: f64,
    /// Milliseconds of a sync.
    pub(crate) p50: f64,
    /// Milliseconds of a slow one.
    pub(crate) p99: f64,
}

/// Appends batches of `batch` jobs of `bytes` each for about two seconds.
pub(crate) fn measure(world: &World, batch: usize, bytes: usize) -> Raw {
    let path = world.path(&format!("raw-{batch}"));
    let mut file = File::create(&path).expect("a file can be made");
    let buffer = vec![b'x'; batch * bytes];
    let mut syncs: Vec<Duration> = Vec::new();
    let begun = now();
    while begun.elapsed() < Duration::from_secs(2) {
        file.write_all(&buffer).expect("the disk takes it");
        let sync = now();
        file.sync_data().expect("the disk syncs");
        syncs.push(sync.elapsed());
    }
    let rate = rate(batch * syncs.len(), begun.elapsed());
    std::fs::remove_file(&path).expect("it can be removed");
    Raw { rate, p50: percentile(&mut syncs, 0.5), p99: percentile(&mut syncs, 0.99) }
}
