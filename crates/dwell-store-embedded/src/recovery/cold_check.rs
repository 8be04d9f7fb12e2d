//! Whether what a start has read of the cold tier fits what is there; if not, it is counted anew.
//!
//! Every start checks two things that need no look at the rows themselves: whether there are as many rows as are counted, and
//! whether the copies that are known to be stale exist. Only if one of the two is wrong all rows are read.

use crate::cold::{LiveRun, View};
use crate::engine::{Engine, Recounted};
use crate::format::run::{self, RunError};
use crate::recovery::{OpenError, io_error};
use crate::storage::Storage;

/// Checks, and counts anew if need be; what that has set right.
pub(super) fn check(storage: &dyn Storage, engine: &mut Engine) -> Result<Option<Recounted>, OpenError> {
    let failed = |live_run: &LiveRun, error| io_error(storage, &run::name(live_run.run.number), error);
    let believed = engine.believed();
    match fits(&believed.view, believed.rows, &believed.stale) {
        Ok(false) => {}
        // What is damaged is found, and said, when it is used.
        Ok(true) | Err((_, RunError::Damaged(_))) => return Ok(None),
        Err((live_run, RunError::Io(error))) => return Err(failed(&live_run, error)),
    }
    let mut recount = engine.begin_recount();
    let counted = rows(&believed.view, |key, seen| engine.recount(&mut recount, key, seen));
    match counted {
        Ok(()) => Ok(Some(engine.recounted(recount))),
        Err((_, RunError::Damaged(_))) => Ok(None),
        Err((live_run, RunError::Io(error))) => Err(failed(&live_run, error)),
    }
}

/// Whether as many rows are there as are believed to be, and all that are believed to be stale.
fn fits(view: &View, rows: u64, stale: &[(u64, u64)]) -> Result<bool, (LiveRun, RunError)> {
    if view.runs.iter().map(LiveRun::live).sum::<u64>() != rows {
        return Ok(false);
    }
    let numbers: Vec<u64> = stale.iter().map(|(number, _)| *number).collect();
    let mut found = vec![0; numbers.len()];
    for live_run in view.runs.iter().filter(|_| !numbers.is_empty()) {
        let there = live_run.run.find_numbers(&numbers).map_err(|error| (live_run.clone(), error))?;
        for (place, _) in there.into_iter().filter(|(_, ordinal)| !live_run.dead.contains(*ordinal)) {
            found[place] += 1;
        }
    }
    Ok(stale.iter().zip(found).all(|((_, stale), found)| found >= *stale))
}

/// Shows all rows that are not marked as dead.
pub(crate) fn rows(
    view: &View,
    mut show: impl FnMut(&crate::format::key::Key, &crate::format::record::RecordHeader<'_>),
) -> Result<(), (LiveRun, RunError)> {
    for live_run in &view.runs {
        let failed = |error| (live_run.clone(), error);
        for at in (0..live_run.run.index.len()).filter(|at| !live_run.is_dead(*at)) {
            let block = live_run.run.block(at).map_err(failed)?;
            for entry in block.entries().filter(|entry| !live_run.dead.contains(entry.ordinal)) {
                let seen = run::look(entry.record).map_err(|damage| failed(damage.into()))?;
                show(&entry.key, &seen);
            }
        }
    }
    Ok(())
}
