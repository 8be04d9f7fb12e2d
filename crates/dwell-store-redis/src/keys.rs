//! Where things are: partitions, their hash tags, and which topic or number is in which.

use dwell_core::{Number, TopicName};

/// The most partitions there can be: numbers leave room for as many.
pub const MAX_PARTITIONS: u16 = 256;

/// Slots of a Redis Cluster.
const SLOTS: u32 = 16_384;

/// The keys of one store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    bases: Vec<String>,
}

impl Keys {
    /// The keys of `partitions` partitions, spread evenly over the slots.
    pub(crate) fn new(prefix: &str, partitions: u16) -> Self {
        let bases = (0..partitions).map(|partition| format!("{prefix}:{{{}}}", tag(partition, partitions))).collect();
        Self { prefix: prefix.to_owned(), bases }
    }

    pub(crate) fn partitions(&self) -> usize {
        self.bases.len()
    }

    /// The key that everything of a partition is named after.
    pub(crate) fn base(&self, partition: usize) -> &str {
        &self.bases[partition]
    }

    /// What version the layout has, and how many partitions.
    pub(crate) fn layout(&self) -> String {
        format!("{}:layout", self.prefix)
    }

    /// The channel on which a partition's wake-ups go.
    pub(crate) fn channel(&self, partition: usize) -> String {
        format!("{}:wake", self.base(partition))
    }

    /// Which partition a topic is in.
    pub(crate) fn of_topic(&self, topic: &TopicName) -> usize {
        usize::from(crc16(topic.as_str().as_bytes())) % self.partitions()
    }

    /// Which partition the job of a number is in.
    pub(crate) fn of_number(&self, number: Number) -> usize {
        usize::try_from(number.get() % self.partitions() as u64).expect("below the number of partitions")
    }
}

/// A tag whose slot lies in the partition's own share of the slots.
fn tag(partition: u16, partitions: u16) -> String {
    let share = |slot: u16| u32::from(slot) * u32::from(partitions) / SLOTS;
    let candidates = (0_u32..).map(|k| format!("{partition:x}.{k:x}"));
    let mut fitting = candidates.filter(|tag| share(crc16(tag.as_bytes()) % 16_384) == u32::from(partition));
    fitting.next().expect("every share of the slots has a tag")
}

/// CRC-16/XMODEM, which Redis Cluster takes slots from.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ (u16::from(byte) << 8),
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b"foo") % 16_384, 12_182);
    }

    #[test]
    fn partitions_are_spread_over_the_slots_one_to_a_share() {
        for partitions in [1, 2, 3, 64, MAX_PARTITIONS] {
            let keys = Keys::new("dwell", partitions);
            for partition in 0..keys.partitions() {
                let base = keys.base(partition);
                let tag = &base[base.find('{').unwrap() + 1..base.find('}').unwrap()];
                let slot = u32::from(crc16(tag.as_bytes())) % SLOTS;
                assert_eq!(slot * u32::from(partitions) / SLOTS, u32::try_from(partition).unwrap(), "{base}");
            }
        }
    }

    #[test]
    fn a_stored_topic_never_changes_its_partition() {
        let keys = Keys::new("dwell", 64);
        let of = |name: &str| keys.of_topic(&TopicName::new(name).unwrap());
        assert_eq!((of("emails"), of("default"), of("a/b")), (16, 22, 39));
        assert_eq!((keys.base(0), keys.base(63)), ("dwell:{0.bc}", "dwell:{3f.48}"));
    }
}
