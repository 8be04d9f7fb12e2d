//! Fills a directory, says what that took, and waits to be killed.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dwell_bench::memory;
use dwell_core::Store;

use super::{Args, SOONEST, store_in};
use crate::put::{OVERHEAD, spread};
use crate::world::{World, job, now, rate, taken};
use crate::{parallel, raw, restart};

/// How many are put at a time.
const BATCH: u64 = 512;

/// What it says beside the tenths.
pub(super) const RAW_BEFORE: &str = "the bare loop before";
pub(super) const RAW_AFTER: &str = "the bare loop after";
pub(super) const PEAK: &str = "most bytes of memory";

pub(super) fn tenth(number: u64) -> String {
    format!("durable puts, tenth {number}")
}

pub(crate) fn fill(world: &World, directory: &Path, args: Args) -> ! {
    // A sync of the store carries what all its callers sent while the last one lasted.
    let bare = || raw::measure(world, BATCH as usize * parallel::CALLERS / 2, world.body.len() + OVERHEAD).rate;
    restart::say(RAW_BEFORE, bare());
    let store = world.open(&store_in(directory));
    let all = world.jobs as u64;
    for part in 0..10 {
        let begun = now();
        let range = all * part / 10..all * (part + 1) / 10;
        let jobs = range.end - range.start;
        world.runtime.block_on(put_range(world, &store, args, range));
        restart::say(&tenth(part + 1), rate(jobs as usize, begun.elapsed()));
    }
    restart::say(PEAK, memory::peak_bytes() as f64);
    restart::say(RAW_AFTER, bare());
    restart::wait_for_the_end()
}

async fn put_range(world: &World, store: &Arc<dyn Store>, args: Args, range: Range<u64>) {
    let (store, body) = (Arc::clone(store), world.body.clone());
    parallel::batches(range, BATCH, move |batch| {
        let (store, body) = (Arc::clone(&store), body.clone());
        async move {
            let jobs = batch.map(|id| job(&args.place(id), id, SOONEST + spread(id), &body)).collect();
            let answers = store.put(jobs).await.expect("put answers");
            taken(&answers);
        }
    })
    .await;
}
