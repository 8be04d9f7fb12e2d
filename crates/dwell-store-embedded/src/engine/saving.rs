//! What goes into a manifest, and into the topics' file beside it.

use dwell_core::Timestamp;

use super::Engine;
use super::fold::Step;
use super::shelf::Saving;
use crate::format::key::{Lane, Slice};
use crate::format::manifest::RunName;
use crate::format::record;
use crate::format::topics::{self, ShelfSummary, SliceSummary};
use crate::planted::{self, Bug};
use crate::shelf::{BadPlace, Shelved};

impl Engine {
    /// Makes sure that the topics' file that is to be written next has a name of its own. One of the same name would take
    /// the place of the file that the manifest names before there is another manifest; if the store ends between the
    /// two, the old manifest and the new file do not fit.
    pub(crate) fn before_saving(&mut self) {
        let same = self.shelf.stamp == Some(self.batch.last_sequence()) && self.batch.len() == 0;
        if same && self.saves_topics() && !planted::is(Bug::TopicsShareName) {
            self.batch.log(record::encode_no_op);
        }
    }

    /// Whether the topics go with the next manifest. What is being folded is in memory and in the journal, and must not be
    /// counted among what is on the shelf.
    fn saves_topics(&self) -> bool {
        self.shelf.unsaved && matches!(self.folding.step, Step::Rest)
    }

    /// What a manifest is to say of the shelf, if that has changed and may be said; with it, the files not needed then.
    pub(crate) fn take_unsaved(&mut self) -> Option<Unsaved> {
        // What is on the shelf must not be named before its segments can go.
        if !self.shelf.unsaved || matches!(self.folding.step, Step::Sync(..)) {
            return None;
        }
        let topics = self.saves_topics();
        if topics {
            self.shelf.stamp = Some(self.batch.last_sequence());
        }
        self.shelf.unsaved = false;
        let name = |shelved: &Shelved| RunName { run: shelved.run.number, dead: shelved.stamp };
        let view = self.shelf.next.take();
        let runs = view.as_ref().unwrap_or(&self.shelf.view).runs.iter().map(name).collect();
        let bad = self.shelf.bad.iter().cloned().collect();
        let lands = topics && std::mem::take(&mut self.folding.lands);
        self.shelf.saving.push_back(Some(Saving { view, lands }));
        Some(Unsaved { runs, bad, obsolete: std::mem::take(&mut self.shelf.obsolete), topics })
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
        self.shelf_summary().encode(&mut file);
        let count = u32::try_from(self.topics.len()).expect("fewer than 2^32 topics");
        topics::seal(&mut file, self.batch.last_sequence(), count);
        file
    }

    fn shelf_summary(&self) -> ShelfSummary {
        let with_lanes = self.topics.values().filter(|topic| !topic.lanes.is_empty());
        let mut summary = ShelfSummary {
            lanes: with_lanes.map(|topic| (topic.id, topic.lanes.clone())).collect(),
            slices: Vec::new(),
            minutes: self.shelf.minutes.sorted(),
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
                let passes = if of.near > 0 { of.passes.min(of.near_passes) } else { of.passes };
                let passes = if self.shelf.passing.contains_key(&slice) { Timestamp::EPOCH } else { passes };
                summary.slices.push(SliceSummary { slice, jobs: of.copies, first, passes });
            }
        }
        for (topic, slices) in &self.shelf.gone {
            for (&(line, lane), of) in slices {
                let slice = Slice { topic: *topic, line, lane };
                let (jobs, first, passes) = (of.copies, Timestamp::EPOCH, Timestamp::MAX);
                summary.slices.push(SliceSummary { slice, jobs, first, passes });
            }
        }
        summary
    }
}

/// What a manifest is to say of the shelf.
pub(crate) struct Unsaved {
    pub(crate) runs: Vec<RunName>,
    /// Places of them that cannot be read.
    pub(crate) bad: Vec<BadPlace>,
    pub(crate) obsolete: Vec<String>,
    /// Whether the topics are to be saved with it.
    pub(crate) topics: bool,
}
