//! Checking a store that no server uses: that a start would read it, and that every live job is in exactly one order.
//!
//! Nothing is written. What a start would set right by itself (see [`crate::recovery`]) is listed, too.

use std::io;
use std::path::Path;

use crate::cold::View;
use crate::config::Config;
use crate::engine::{Audit, Audited, Engine, Recounted};
use crate::format::manifest;
use crate::recovery::{self, OpenError, cold_check};
use crate::storage::{DiskStorage, Storage};
use crate::store::settings;

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Live jobs.
    pub jobs: u64,
    /// Topics.
    pub topics: u64,
    /// Jobs that no order has; the next start puts them back.
    pub hidden: u64,
    /// Jobs that are counted and are not there; the next start counts anew.
    pub absent: u64,
    /// What else is not as it should be.
    pub wrong: Vec<String>,
}

impl Checked {
    /// Whether everything is as it should be.
    pub fn is_good(&self) -> bool {
        self.hidden == 0 && self.absent == 0 && self.wrong.is_empty()
    }
}

/// Checks the store in a directory. It belongs to the check meanwhile: no server can use it.
pub fn check_directory(dir: &Path) -> Result<Checked, OpenError> {
    if !dir.join(manifest::NAME).exists() {
        let error = io::Error::new(io::ErrorKind::NotFound, "it holds no store");
        return Err(OpenError::Io { place: dir.display().to_string(), error });
    }
    check(&DiskStorage::open(dir)?)
}

/// Checks a store that no server has open.
pub fn check(storage: &dyn Storage) -> Result<Checked, OpenError> {
    let (engine, recounted) = recovery::look(storage, settings(&Config::in_directory(Path::new(""))))?;
    let Recounted { found: hidden, absent } = recounted.unwrap_or_default();
    let Audited { jobs, topics, wrong } = audit(&engine).expect("nothing is on its way to the cold tier");
    Ok(Checked { jobs, topics, hidden, absent, wrong })
}

/// Looks at an engine and at all of its cold tier; nothing, while jobs are on their way there.
pub(crate) fn audit(engine: &Engine) -> Option<Audited> {
    let mut audit = Audit::begin(engine)?;
    let view: View = engine.cold_view();
    if cold_check::rows(&view, |key, seen| audit.row(key, seen)).is_err() {
        audit.is_partial();
    }
    Some(audit.finish())
}
