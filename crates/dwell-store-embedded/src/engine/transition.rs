//! The one way in which a live job changes.
//!
//! 1. The job is taken out of its orders.
//! 2. A rule of `dwell-core` changes it, by a command or by the passing of time.
//! 3. If it lives on changed, it is counted and logged: whole if its body has changed or its last copy is in the cold tier,
//!    and then in one frame with the tombstone of that copy.
//! 4. The caller puts it back into its orders, or removes it.

use dwell_core::state::Moment;
use dwell_core::{Job, Phase, Rules};

use super::cold::ColdCopy;
use super::slots::{Home, Index};
use super::{Engine, totals};
use crate::format::record::{self, BodyPart, Cause, PhaseKind};
use crate::sim_bugs::{self, Bug};

/// What a rule has made of a job.
pub(super) struct Changed<T> {
    /// What the rule says.
    pub(super) result: T,
    /// Why the job is to be logged as it is now, if it is.
    pub(super) cause: Option<Cause>,
}

impl Engine {
    /// Steps 1 to 3. `carries_body`: the rule may replace the body. With the result comes the job's copy in the cold tier, if
    /// it is still true since nothing was logged.
    pub(super) fn transition<T>(
        &mut self,
        index: Index,
        carries_body: bool,
        rule: impl FnOnce(&mut Job, &Moment<'_>) -> Changed<T>,
    ) -> (T, Option<ColdCopy>) {
        let random = self.roll();
        self.unindex(index);
        let stale = self.copy_of(index);
        let slot = self.slots.get(index);
        let was_buried = slot.meta.phase == PhaseKind::Buried;
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        let job = self.slots.open(index, &topic.name);
        let rules = Rules { policy: &topic.policy, defaults: &self.settings.defaults };
        let moment = Moment { now: self.now.core(), version: self.batch.version(), random, rules };
        let Changed { result, cause } = rule(job, &moment);
        let Some(cause) = cause else { return (result, stale) };
        let is_buried = matches!(job.phase, Phase::Buried(_));
        totals::count(&mut topic.totals, cause, was_buried, is_buried);
        let whole = carries_body || stale.is_some();
        let body = if whole { BodyPart::Here } else { BodyPart::Kept };
        let home = Home::journal(self.batch.next_sequence());
        if !(sim_bugs::is(Bug::LeaseNotLogged) && cause == Cause::Lease) {
            let tombstone = stale.and_then(ColdCopy::record);
            self.batch.log_over(tombstone, |out| record::encode_job(out, topic.id, cause, job, body));
        }
        if whole {
            self.slots.get_mut(index).home = home;
        }
        self.slots.changed(index);
        self.add_tombstone(stale);
        (result, None)
    }
}
