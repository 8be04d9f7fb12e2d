//! What the next manifest says about the cold tier, and the topics file beside it.

use dwell_core::Timestamp;

use super::Engine;
use super::cold::Saving;
use super::flush::Step;
use crate::cold::{BadPlace, LiveRun};
use crate::format::key::{Lane, Slice};
use crate::format::manifest::RunName;
use crate::format::record;
use crate::format::topics::{self, ColdSummary, SliceSummary};
use crate::sim_bugs::{self, Bug};

impl Engine {
    /// Makes sure that the topics' file that is to be written next has a name of its own. One of the same name would take
    /// the place of the file that the manifest names before there is another manifest; if the store ends between the
    /// two, the old manifest and the new file do not fit.
    pub(crate) fn before_saving(&mut self) {
        let same = self.cold.stamp == Some(self.batch.last_sequence()) && self.batch.len() == 0;
        if same && self.saves_topics() && !sim_bugs::is(Bug::TopicsShareName) {
            self.batch.log(record::encode_no_op);
        }
    }

    /// Whether the topics go with the next manifest. What is being flushed is in memory and in the journal, and must not be
    /// counted among what is in the cold tier.
    fn saves_topics(&self) -> bool {
        self.cold.unsaved && matches!(self.flush.step, Step::Idle)
    }

    /// What the next manifest says about the cold tier, if that has changed and may be named; with the files that become obsolete.
    pub(crate) fn take_manifest_delta(&mut self) -> Option<ManifestDelta> {
        // What is in the cold tier must not be named before its segments can go.
        if !self.cold.unsaved || matches!(self.flush.step, Step::Syncing(..)) {
            return None;
        }
        let topics = self.saves_topics();
        if topics {
            self.cold.stamp = Some(self.batch.last_sequence());
        }
        self.cold.unsaved = false;
        let name = |live_run: &LiveRun| RunName { run: live_run.run.number, dead: live_run.stamp };
        let view = self.cold.next.take();
        let runs = view.as_ref().unwrap_or(&self.cold.view).runs.iter().map(name).collect();
        let bad = self.cold.bad.iter().cloned().collect();
        let lands = topics && std::mem::take(&mut self.flush.lands);
        self.cold.saving.push_back(Some(Saving { view, lands }));
        Some(ManifestDelta { runs, bad, obsolete: std::mem::take(&mut self.cold.obsolete), topics })
    }

    /// All topics as they are now: what goes beside a manifest that lets go of segments.
    pub(crate) fn topics_file(&self) -> Vec<u8> {
        let mut file = topics::room();
        for topic in self.topics.values() {
            record::encode_topic(
                &mut file,
                topic.id,
                &topic.name,
                &topic.policy,
                topic.pause,
                &topic.totals,
                topic.forgotten,
            );
        }
        self.cold_summary().encode(&mut file);
        let count = u32::try_from(self.topics.len()).expect("fewer than 2^32 topics");
        topics::seal(&mut file, self.batch.last_sequence(), count);
        file
    }

    fn cold_summary(&self) -> ColdSummary {
        let with_lanes = self.topics.values().filter(|topic| !topic.lanes.is_empty());
        let mut summary = ColdSummary {
            lanes: with_lanes.map(|topic| (topic.id, topic.lanes.clone())).collect(),
            slices: Vec::new(),
            minutes: self.cold.minutes.sorted(),
            stale: self.unnoted().collect(),
        };
        for topic in self.topics.values() {
            let near = |buried: bool| {
                let places = if buried { &topic.buried } else { &topic.waiting };
                places.first().map_or(Timestamp::MAX, |((due_at, _), _)| due_at)
            };
            for (&(line, lane), of) in topic.slices.iter().filter(|(_, of)| of.copies > 0) {
                let slice = Slice { topic: topic.id, line, lane };
                let first = of.first.min(near(lane == Lane::BURIED));
                let passes = if of.near > 0 { of.passes.min(of.resident_passes) } else { of.passes };
                let passes = if self.cold.passing.contains_key(&slice) { Timestamp::EPOCH } else { passes };
                summary.slices.push(SliceSummary { slice, jobs: of.copies, first, passes });
            }
        }
        for (topic, slices) in &self.cold.gone {
            for (&(line, lane), of) in slices {
                let slice = Slice { topic: *topic, line, lane };
                let (jobs, first, passes) = (of.copies, Timestamp::EPOCH, Timestamp::MAX);
                summary.slices.push(SliceSummary { slice, jobs, first, passes });
            }
        }
        summary
    }
}

/// What the next manifest says about the cold tier.
pub(crate) struct ManifestDelta {
    pub(crate) runs: Vec<RunName>,
    /// Places of them that cannot be read.
    pub(crate) bad: Vec<BadPlace>,
    pub(crate) obsolete: Vec<String>,
    /// Whether the topics are to be saved with it.
    pub(crate) topics: bool,
}
