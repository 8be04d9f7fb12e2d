//! What the disk did not give: who asked for it asks again, and is told in the end.

use dwell_core::StoreError;

use super::super::Engine;
use super::Asker;
use crate::format::record::TopicId;

/// How often a command asks again when the disk does not give what is there.
const FAILURES: u32 = 3;

impl Engine {
    /// The disk did not give what is there. It is asked again: for a command at once, a few times; otherwise with the
    /// next sweep or command.
    pub(super) fn failed_to_read(&mut self, asker: Asker, why: String) {
        match asker {
            Asker::Command(mut parked, _) if parked.failures < FAILURES => {
                parked.failures += 1;
                self.attempt_again(parked);
            }
            Asker::Command(parked, _) => parked.command.refuse(StoreError::Unreadable { detail: why }),
            Asker::Slice { slice, .. } => {
                if let Some(of) = self.slice_mut(slice) {
                    of.asked = false;
                }
                self.fail_for_topic(slice.topic, &why);
            }
            Asker::Passage(slice) => {
                if let Some(passing) = self.shelf.passing.get_mut(&slice) {
                    passing.failed = true;
                }
                self.fail_for_topic(slice.topic, &why);
            }
        }
    }

    /// The disk did not give what commands that look at a topic wait for: they look again, a few times.
    fn fail_for_topic(&mut self, topic: TopicId, why: &str) {
        for mut parked in std::mem::take(&mut self.asking.for_slices) {
            if !parked.command.topics_looked_at(self).contains(&topic) {
                self.asking.for_slices.push(parked);
            } else if parked.failures < FAILURES {
                parked.failures += 1;
                self.attempt_again(Box::new(parked));
            } else {
                parked.command.refuse(StoreError::Unreadable { detail: why.to_owned() });
            }
        }
    }
}
