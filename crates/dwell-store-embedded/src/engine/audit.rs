//! Whether every live job is in exactly one order, and whether counts are what is there.
//!
//! An [`Audit`] is shown every row of the cold tier that is not marked as dead and compares them, and what is in memory, with
//! what the engine believes. It changes nothing. Tests, the simulation and `dwell repair --check` run it.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use super::Engine;
use super::cold::ColdSlice;
use super::index::Indexed;
use super::slots::Home;
use super::topic::Topic;
use crate::format::key::{Key, Lane, Slice};
use crate::format::record::{PhaseKind, RecordHeader, TopicId};

/// How much is said of what is wrong.
const MOST_SAID: usize = 20;

/// An audit under way.
pub(crate) struct Audit<'a> {
    engine: &'a Engine,
    found: BTreeMap<Slice, Found>,
    minutes: BTreeMap<u64, u64>,
    /// Numbers and hashes of ids of jobs whose copy here is their newest.
    numbers: RoaringTreemap,
    ids: RoaringTreemap,
    jobs: u64,
    /// Not all rows can be read: counts say nothing then.
    is_partial: bool,
    wrong: Vec<String>,
}

/// What was found of a slice.
#[derive(Clone, Copy, Default)]
struct Found {
    /// True copies.
    copies: u64,
    /// Those of them that are in memory, too.
    near: u64,
    /// Copies that are stale.
    stale: u64,
}

/// What an audit has found.
pub(crate) struct Audited {
    /// Live jobs, in memory or not.
    pub(crate) jobs: u64,
    pub(crate) topics: u64,
    /// What is not as it should be, for people.
    pub(crate) wrong: Vec<String>,
}

impl<'a> Audit<'a> {
    /// Begins; not while the cold tier is being written: jobs are counted there that cannot be read yet, and topics are
    /// cleared away that still can.
    pub(crate) fn begin(engine: &'a Engine) -> Option<Self> {
        if engine.flush.is_under_way() || engine.cold.is_saving() {
            return None;
        }
        Some(Self {
            engine,
            found: BTreeMap::new(),
            minutes: BTreeMap::new(),
            numbers: RoaringTreemap::new(),
            ids: RoaringTreemap::new(),
            jobs: engine.slots.len() as u64,
            is_partial: false,
            wrong: Vec::new(),
        })
    }

    /// Some rows cannot be read.
    pub(crate) fn is_partial(&mut self) {
        self.is_partial = true;
    }

    /// One row that is not marked as dead.
    pub(crate) fn row(&mut self, key: &Key, seen: &RecordHeader<'_>) {
        let (slice, engine) = (key.slice, self.engine);
        let found = self.found.entry(slice).or_default();
        let of = slice_of(engine, slice);
        if of.is_some_and(|of| of.stale.contains(key.place(), seen.version)) {
            found.stale += 1;
            return;
        }
        found.copies += 1;
        if slice.lane != Lane::BURIED {
            *self.minutes.entry(super::minute(key.due_at)).or_default() += 1;
        }
        let job = || format!("job {:?} of {}", String::from_utf8_lossy(seen.id), topic_name(engine, slice.topic));
        let Some(topic) = engine.topics.get(&slice.topic) else { return };
        let lane = topic.lane(seen.meta.priority, seen.meta.phase);
        let mut wrong = Vec::new();
        if lane != slice.lane || key.place() != seen.meta.place() || slice.line != seen.meta.line {
            wrong.push(format!("{} lies at {key:?}, where nobody looks for it", job()));
        }
        let number = seen.meta.number;
        if !self.numbers.insert(number.get()) || !self.ids.insert(name_hash(slice.topic, seen.id)) {
            wrong.push(format!("{} is in the cold tier twice", job()));
        }
        match engine.slots.by_number(number) {
            Some(index) if engine.slots.get(index).home == Home::COLD => found.near += 1,
            Some(_) => wrong.push(format!("{} is in memory, and its older copy counts too", job())),
            None => {
                self.jobs += 1;
                let hidden = of.is_some_and(|of| key.due_at < of.first || key.place() < of.reached);
                if hidden {
                    wrong.push(format!("{} is where everything is thought to be in memory", job()));
                }
                let namesake = str::from_utf8(seen.id).ok().and_then(|id| engine.slots.by_id(slice.topic, id));
                if namesake.is_some() {
                    wrong.push(format!("{} is there twice: in memory and in the cold tier", job()));
                }
            }
        }
        self.wrong.extend(wrong);
    }

    /// All rows have been shown.
    pub(crate) fn finish(mut self) -> Audited {
        if !self.is_partial {
            self.slices();
            let counted: BTreeMap<u64, u64> = self.engine.cold.minutes.sorted().into_iter().collect();
            if counted != self.minutes {
                self.wrong.push(format!("the cold tier's timeline counts {counted:?}, not {:?}", self.minutes));
            }
        }
        self.memory();
        let more = self.wrong.len().saturating_sub(MOST_SAID);
        self.wrong.truncate(MOST_SAID);
        if more > 0 {
            self.wrong.push(format!("and {more} more"));
        }
        Audited { jobs: self.jobs, topics: self.engine.topics.len() as u64, wrong: self.wrong }
    }

    /// What is counted of each slice is what is there.
    fn slices(&mut self) {
        let engine = self.engine;
        let live = engine.topics.iter().map(|(id, topic)| (*id, &topic.slices));
        let gone = engine.cold.gone.iter().map(|(id, slices)| (*id, slices));
        let mut found = std::mem::take(&mut self.found);
        for (topic, slices) in live.chain(gone) {
            for (&(line, lane), of) in slices {
                let there = found.remove(&Slice { topic, line, lane }).unwrap_or_default();
                let counted = (of.copies, of.near, of.stale.len() as u64);
                // Of a topic that is gone nothing is in memory.
                let is_gone = !engine.topics.contains_key(&topic);
                let near = if is_gone { of.near } else { there.near };
                if counted != (there.copies, near, there.stale) {
                    self.wrong.push(format!(
                        "{} {line:?} {lane:?}: {} jobs counted in the cold tier, {} of them in memory, and {} stale \
                         copies; there are {}, {near} and {}",
                        topic_name(engine, topic),
                        of.copies,
                        of.near,
                        of.stale.len(),
                        there.copies,
                        there.stale,
                    ));
                }
            }
        }
        for (slice, there) in found {
            let Found { copies, stale, .. } = there;
            self.wrong.push(format!("{slice:?}: {copies} jobs and {stale} stale copies that nobody counts"));
        }
    }

    /// Every job in memory is in the one order it belongs to, and orders have nothing else.
    fn memory(&mut self) {
        let engine = self.engine;
        let mut indexed: BTreeMap<TopicId, [u64; 4]> = BTreeMap::new();
        for index in 0..engine.slots.end() {
            let Some(slot) = engine.slots.peek(index) else { continue };
            let Some(topic) = engine.topics.get(&slot.topic) else {
                self.wrong.push(format!("job number {} has no topic", slot.meta.number.get()));
                continue;
            };
            let place = slot.meta.place();
            let in_order = |order: &super::due_index::DueIndex| order.range(place..=place).any(|(_, of)| of == index);
            let (row, phase, is_there) = match slot.indexed {
                Indexed::None => (0, None, false),
                Indexed::Delayed => (0, Some(PhaseKind::Waiting), in_order(&topic.waiting)),
                Indexed::Ready(line) => {
                    let there = topic.ready.get(&line).and_then(|ready| ready.get(&slot.meta.rank()));
                    let is_there = there == Some(&index) && line == slot.meta.line && in_order(&topic.waiting);
                    (1, Some(PhaseKind::Waiting), is_there)
                }
                Indexed::Leased => (2, Some(PhaseKind::Leased), in_order(&topic.leased)),
                Indexed::Buried => (3, Some(PhaseKind::Buried), in_order(&topic.buried)),
            };
            if !is_there || phase != Some(slot.meta.phase) {
                let (name, number) = (&topic.name, slot.meta.number.get());
                self.wrong.push(format!("job number {number} of {name} is in no order: {:?}", slot.indexed));
            }
            indexed.entry(slot.topic).or_default()[row] += 1;
        }
        for (id, topic) in &engine.topics {
            let [delayed, ready, leased, buried] = indexed.get(id).copied().unwrap_or_default();
            let counted = [topic.waiting.len() as u64, topic.leased.len() as u64, topic.buried.len() as u64];
            let ready_there = topic.ready.values().map(|ready| ready.len() as u64).sum::<u64>();
            if counted != [delayed + ready, leased, buried] || topic.ready_count != ready || ready_there != ready {
                let name = &topic.name;
                let there = [delayed + ready, leased, buried];
                self.wrong.push(format!(
                    "{name}: {counted:?} waiting, leased and buried jobs in the orders, {} counted as ready; in memory \
                     there are {there:?}, {ready} of them ready",
                    topic.ready_count
                ));
            }
        }
    }
}

fn slice_of(engine: &Engine, slice: Slice) -> Option<&ColdSlice> {
    let slices = match engine.topics.get(&slice.topic) {
        Some(topic) => &topic.slices,
        None => engine.cold.gone.get(&slice.topic)?,
    };
    slices.get(&(slice.line, slice.lane)).map(|of| &**of)
}

/// Of topic and id together: seeds alone let short ids of different topics meet.
fn name_hash(topic: TopicId, id: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&[&topic.0.to_le_bytes(), id].concat())
}

fn topic_name(engine: &Engine, id: TopicId) -> String {
    let name = |topic: &Topic| format!("topic {:?}", topic.name.as_str());
    engine.topics.get(&id).map_or_else(|| "a deleted topic".to_owned(), name)
}
