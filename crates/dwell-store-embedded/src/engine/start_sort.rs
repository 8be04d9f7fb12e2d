//! Sorting the delayed jobs of a start in two shares, so that two threads can do it.

use std::ops::{Bound, RangeBounds};

use dwell_core::Timestamp;
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

use super::due_histogram::minute;
use super::slots::{Index, Slots};
use super::topic::Place;
use crate::format::record::{PhaseKind, TopicId};

/// How many jobs say where one share ends and the other begins.
const QUANTILE_SAMPLES: Index = 1_023;

/// Jobs that have been replayed and are due within some time.
pub(crate) struct Share<'a> {
    slots: &'a Slots,
    now: Timestamp,
    dues: (Bound<Timestamp>, Bound<Timestamp>),
    /// Whether those that are not simply delayed are in it, whenever they are due.
    others: bool,
}

/// A [`Share`] in order.
pub(crate) struct SortedJobs {
    /// Jobs that are delayed, by topic.
    pub(super) delayed: Vec<(TopicId, Vec<(Place, Index)>)>,
    /// Those that are not delayed, and those that take more than a place.
    pub(super) others: Vec<Index>,
}

/// All jobs: those that are due sooner, and about a third, for whoever has other things to do too, that are due later.
pub(super) fn shares(slots: &Slots, now: Timestamp) -> [Share<'_>; 2] {
    let step = slots.end() / QUANTILE_SAMPLES + 1;
    let sampled = (0..QUANTILE_SAMPLES).filter_map(|k| slots.peek(k * step));
    let mut dues: Vec<Timestamp> = sampled.map(|slot| slot.meta.due_at).collect();
    dues.sort_unstable();
    let last = dues.get(dues.len() * 2 / 3).copied().unwrap_or(now);
    [
        Share { slots, now, dues: (Bound::Unbounded, Bound::Included(last)), others: true },
        Share { slots, now, dues: (Bound::Excluded(last), Bound::Unbounded), others: false },
    ]
}

impl Share<'_> {
    pub(crate) fn order(&self) -> SortedJobs {
        let mut delayed: HashMap<TopicId, Vec<(Place, Index)>, FastHash> = HashMap::default();
        // Often they are all of one topic, and the first share gets the other too; room that is not used costs nothing.
        let mut room = self.slots.len();
        let mut others = Vec::new();
        for index in 0..self.slots.end() {
            let Some(slot) = self.slots.peek(index) else { continue };
            let meta = &slot.meta;
            let is_delayed = meta.phase == PhaseKind::Waiting && meta.due_at > self.now;
            if self.others && (!is_delayed || meta.own_ttl) {
                others.push(index);
            }
            if is_delayed && self.dues.contains(&meta.due_at) {
                let of_topic = delayed.entry(slot.topic);
                let places = of_topic.or_insert_with(|| Vec::with_capacity(std::mem::take(&mut room)));
                places.push((meta.place(), index));
            }
        }
        let mut delayed: Vec<(TopicId, Vec<(Place, Index)>)> = delayed.into_iter().collect();
        for (_, places) in &mut delayed {
            sort_places(places);
        }
        delayed.sort_unstable_by_key(|(topic, _)| *topic);
        SortedJobs { delayed, others }
    }
}

/// Sorts places: where they are spread over many minutes, minute by minute, so that less is compared.
fn sort_places(places: &mut Vec<(Place, Index)>) {
    let minute_of = |((due_at, _), _): &(Place, Index)| minute(*due_at);
    let first = places.iter().map(minute_of).min().unwrap_or(0);
    let last = places.iter().map(minute_of).max().unwrap_or(0);
    let minutes = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
    if minutes > places.len() || minutes < 2 {
        return places.sort_unstable();
    }
    let bucket = |place: &(Place, Index)| usize::try_from(minute_of(place) - first).expect("counted above");
    let mut ends = vec![0; minutes];
    for place in places.iter() {
        ends[bucket(place)] += 1;
    }
    let mut begin = 0;
    for end in &mut ends {
        begin += std::mem::replace(end, begin);
    }
    let mut sorted = Vec::with_capacity(places.capacity());
    sorted.extend_from_slice(places);
    for place in places.iter() {
        let next = &mut ends[bucket(place)];
        sorted[*next] = *place;
        *next += 1;
    }
    let mut begin = 0;
    for end in ends {
        sorted[begin..end].sort_unstable();
        begin = end;
    }
    *places = sorted;
}

#[cfg(test)]
mod tests {
    use dwell_core::{Line, Number, Priority};
    use proptest::prelude::*;

    use super::*;
    use crate::engine::slots::{Home, RecordLocation};
    use crate::format::record::JobMeta;

    /// Slots with a job for each of these: when it is due, what it is doing, whether it has a ttl of its own.
    fn loaded(jobs: &[(u64, PhaseKind, bool)]) -> Slots {
        let mut slots = Slots::default();
        let chunk = slots.expect_segment();
        for ((due, phase, own_ttl), k) in jobs.iter().zip(0_u32..) {
            let number = Number::new(u64::from(k)).unwrap();
            let due_at = Timestamp::from_millis(*due).unwrap();
            let (priority, line) = (Priority::DEFAULT, Line::PULL);
            let meta = JobMeta { number, due_at, priority, line, phase: *phase, own_ttl: *own_ttl };
            slots.load(TopicId(k % 3), meta, k + 1, RecordLocation { chunk, at: 0, length: 1 }, Home::journal(1));
        }
        slots
    }

    proptest! {
        #[test]
        fn each_job_is_in_one_share_and_in_its_place(
            jobs in prop::collection::vec(
                (
                    prop_oneof![5 => 0..2_000_u64, 1 => Just(Timestamp::MAX.as_millis())],
                    prop_oneof![6 => Just(PhaseKind::Waiting), 1 => Just(PhaseKind::Leased), 1 => Just(PhaseKind::Buried)],
                    prop::bool::weighted(0.2),
                ),
                0..3_000,
            ),
        ) {
            let (slots, now) = (loaded(&jobs), Timestamp::from_millis(500).unwrap());
            let [sooner, later] = shares(&slots, now).map(|share| share.order());
            prop_assert!(later.others.is_empty());
            let is_delayed = |(due, phase, _): &(u64, PhaseKind, bool)| *phase == PhaseKind::Waiting && *due > 500;
            let others = jobs.iter().zip(0..).filter(|(job, _)| !is_delayed(job) || job.2).map(|(_, k)| k);
            prop_assert_eq!(&sooner.others, &others.collect::<Vec<Index>>());
            for topic in 0..3 {
                let of = |share: &SortedJobs| share.delayed.iter().filter(|(id, _)| id.0 == topic).flat_map(|(_, places)| places.clone()).collect::<Vec<_>>();
                let all = [of(&sooner), of(&later)].concat();
                let mut expected: Vec<(Place, Index)> = (topic..).step_by(3).map_while(|k| slots.peek(k).map(|slot| (slot.meta.place(), k))).collect();
                expected.retain(|(_, k)| is_delayed(&jobs[*k as usize]));
                expected.sort_unstable();
                prop_assert_eq!(all, expected);
            }
        }

        #[test]
        fn places_are_sorted_however_they_are_spread(
            dues in prop::collection::vec(any::<u32>(), 0..300),
            step in prop_oneof![Just(1_u64), Just(60), Just(10_000), Just(10_000_000)],
        ) {
            let place = |(due, k): (&u32, u32)| {
                let due_at = Timestamp::from_millis(1_000_000 + u64::from(*due % 1_000) * step).unwrap();
                ((due_at, Number::new(u64::from(k ^ 5)).unwrap()), k)
            };
            let mut places: Vec<(Place, Index)> = dues.iter().zip(0..).map(place).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            sort_places(&mut places);
            prop_assert_eq!(places, sorted);
        }
    }
}
