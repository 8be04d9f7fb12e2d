//! Tubes as topics, ids as numbers.

use beanstalk_protocol::Tube;
use dwell_core::{Number, TopicName};

/// The topic that a tube is; `None` for the two names that no topic can have, `.` and `..`.
pub(super) fn topic(tube: Tube<'_>) -> Option<TopicName> {
    TopicName::new(tube.as_str()).ok()
}

/// The tube that a topic is: every name of one is good for the other.
pub(super) fn tube(topic: &TopicName) -> Tube<'_> {
    Tube::new(topic.as_str()).expect("tubes may have every name that topics may have")
}

/// Tubes as a document in YAML.
pub(super) fn list(topics: &[TopicName]) -> Vec<u8> {
    let mut text = b"---\n".to_vec();
    for topic in topics {
        text.extend_from_slice(b"- ");
        text.extend_from_slice(topic.as_str().as_bytes());
        text.push(b'\n');
    }
    text
}

/// The tube that every connection uses and watches at first.
pub(super) fn default() -> TopicName {
    topic(Tube::DEFAULT).expect("it is a good name")
}

/// The job of that id; `None` where no job can be.
pub(super) fn number(id: u64) -> Option<Number> {
    Number::new(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that is good for one and not for the other would be a tube that cannot be used.
    #[test]
    fn all_tubes_but_two_are_topics() {
        let longest = "x".repeat(200);
        for name in ["a", "A-z+0/9;._()", "$own", "...", &longest] {
            assert!(topic(Tube::new(name).unwrap()).is_some(), "{name}");
        }
        for name in [".", ".."] {
            assert!(topic(Tube::new(name).unwrap()).is_none(), "{name}");
        }
    }
}
