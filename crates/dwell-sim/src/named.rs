//! Lives that are known to show a bug which few others do: each was found by a search, cut short and kept.

use dwell_store_embedded::Bug;

use crate::disk::Cut;
use crate::event::{Due, Event, Name, Op, Policy, Put};

/// A life with its seed.
pub type NamedLife = (u64, Vec<Event>);

/// The life in which a bug shows that hardly any other one shows.
pub fn life_of(bug: Bug) -> Option<NamedLife> {
    match bug {
        Bug::FlushesShareSequence => Some(a_flush_is_taken_for_another()),
        Bug::TopicsShareName => Some(topics_are_written_over()),
        _ => None,
    }
}

/// A put with nothing set but its name and its due time.
pub fn put(topic: u64, id: u64, due: Due) -> Put {
    let (ttl, ttr, target, body) = (0, 0, 0, 8);
    let (name, ladder) = (Name { topic, id }, Vec::new());
    Put { name, fresh: false, due, priority: 0, if_exists: 0, force: false, ladder, ttl, ttr, target, body }
}

/// A flush lands; the next one begins before anything else is logged, and takes up a job that then changes. The process is
/// killed before that flush has landed. The record that says that the job's copy is stale names the flush by its
/// sequence; with the sequence of the one before, the start took it for a copy that is there, and counted one job less.
pub fn a_flush_is_taken_for_another() -> NamedLife {
    let events = vec![
        Event::Engine,
        Event::Call(Op::Change {
            name: Name { topic: 0, id: 3 },
            due: Some(Due::In(50000)),
            priority: 0,
            ttl: 0,
            body: 0,
            target: 0,
            if_match: false,
            force: false,
        }),
        Event::Engine,
        Event::Call(Op::Put(vec![
            Put { priority: 1, body: 18143, ..put(1, 1, Due::In(60000)) },
            Put { body: 6624, ..put(0, 3, Due::In(60000)) },
            Put { body: 48, ..put(1, 2, Due::In(60000)) },
        ])),
        Event::Engine,
        Event::Call(Op::Put(vec![Put { priority: 2, body: 9556, ..put(0, 0, Due::In(60000)) }])),
        Event::Call(Op::Put(vec![
            Put { priority: 1, body: 22777, ..put(1, 0, Due::In(60000)) },
            Put { body: 54, ..put(1, 0, Due::In(60000)) },
        ])),
        Event::Journal,
        Event::Journal,
        Event::Call(Op::Put(vec![Put { priority: 2, body: 9, ..put(1, 0, Due::In(60000)) }])),
        Event::Engine,
        Event::Call(Op::Put(vec![Put { body: 32294, ..put(0, 0, Due::In(60000)) }])),
        Event::Call(Op::Put(vec![Put { body: 37479, ..put(0, 1, Due::In(60000)) }])),
        Event::Call(Op::Put(vec![Put { priority: 1, body: 26938, ..put(0, 1, Due::In(60000)) }])),
        Event::Call(Op::Change {
            name: Name { topic: 1, id: 0 },
            due: Some(Due::In(50000)),
            priority: 0,
            ttl: 0,
            body: 0,
            target: 0,
            if_match: false,
            force: false,
        }),
        Event::Engine,
        Event::Engine,
        Event::Call(Op::Put(vec![
            Put { body: 7, ..put(0, 1, Due::In(60000)) },
            Put { priority: 2, body: 10527, ..put(1, 0, Due::In(60000)) },
            Put { priority: 2, body: 14039, ..put(1, 1, Due::In(60000)) },
        ])),
        Event::Pass(1),
        Event::Engine,
        Event::Call(Op::Put(vec![
            Put { body: 95, ..put(0, 0, Due::In(60000)) },
            Put { priority: 1, body: 61, ..put(0, 0, Due::In(60000)) },
            Put { priority: 1, body: 28478, ..put(0, 1, Due::In(60000)) },
        ])),
        Event::Engine,
        Event::Journal,
        Event::Kill,
    ];
    (9_223_372_036_854_779_217, events)
}

/// Two flushes follow each other closely. The topics' file of the second had the name of the first one's, which the manifest
/// still named when the power went.
pub fn topics_are_written_over() -> NamedLife {
    let events = vec![
        Event::Call(Op::Policy(Policy {
            topic: 1,
            max_in_flight: 2,
            rate: 10,
            ttl: 0,
            keep_buried: 0,
            keep_done: 0,
            ttr: 0,
            target: 0,
        })),
        Event::Pass(6000),
        Event::Call(Op::Put(vec![Put { priority: 3, force: true, target: 1, body: 36137, ..put(0, 0, Due::In(60)) }])),
        Event::Engine,
        Event::Call(Op::Put(vec![Put {
            priority: 1,
            if_exists: 2,
            ladder: vec![10000],
            ttr: 1000,
            body: 37249,
            ..put(1, 0, Due::In(20))
        }])),
        Event::Pass(2000),
        Event::Call(Op::Cancel {
            names: vec![Name { topic: 0, id: 0 }, Name { topic: 0, id: 4 }],
            if_match: false,
            force: false,
        }),
        Event::Engine,
        Event::Journal,
        Event::Cut(Cut::Keep),
    ];
    (9_223_372_036_854_785_788, events)
}
