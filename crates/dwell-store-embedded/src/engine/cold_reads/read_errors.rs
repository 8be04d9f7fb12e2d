//! Reads that the disk failed: each is tried again a few times, then its command is refused.

use dwell_core::StoreError;

use super::super::Engine;
use super::Requester;
use crate::format::record::TopicId;

/// How often a command is tried again after a failed read.
const READ_ATTEMPTS: u32 = 3;

impl Engine {
    /// The disk did not give what is there. It is asked again: for a command at once, a few times; otherwise with the
    /// next sweep or command.
    pub(super) fn failed_to_read(&mut self, requester: Requester, why: String) {
        match requester {
            Requester::Command(mut parked, _) if parked.failures < READ_ATTEMPTS => {
                parked.failures += 1;
                self.attempt_again(parked);
            }
            Requester::Command(parked, _) => parked.command.refuse(StoreError::Unreadable { detail: why }),
            Requester::Slice { slice, .. } => {
                if let Some(of) = self.slice_mut(slice) {
                    of.asked = false;
                }
                self.fail_for_topic(slice.topic, &why);
            }
            Requester::Passage(slice) => {
                if let Some(passing) = self.cold.passing.get_mut(&slice) {
                    passing.failed = true;
                }
                self.fail_for_topic(slice.topic, &why);
            }
        }
    }

    /// The disk did not give what commands that look at a topic wait for: they look again, a few times.
    fn fail_for_topic(&mut self, topic: TopicId, why: &str) {
        for mut parked in std::mem::take(&mut self.cold_reads.for_slices) {
            if !parked.command.topics_looked_at(self).contains(&topic) {
                self.cold_reads.for_slices.push(parked);
            } else if parked.failures < READ_ATTEMPTS {
                parked.failures += 1;
                self.attempt_again(Box::new(parked));
            } else {
                parked.command.refuse(StoreError::Unreadable { detail: why.to_owned() });
            }
        }
    }
}
