//! Where a job stands in the cold tier.

use dwell_core::{Line, Number, Timestamp, Version, limits};

use super::bytes::{Damage, Reader, put_u16, put_u32, put_u64};
use super::record::TopicId;

/// By due time, then number: the order within a slice, and that of lists and redrives.
pub(crate) type Place = (Timestamp, Number);

/// One of a line's rows of jobs: those of one priority, of all other priorities together, or the buried ones.
///
/// A topic gives each of the first priorities it flushes a lane of its own; the rest share one. So what is due is taken
/// from the cold tier in the order it is handed out in, without a look at what lies behind. The shared lane is in order of due
/// times only: what is due there is loaded before anything of its priorities is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lane(u8);

impl Lane {
    /// How many priorities of a topic have a lane of their own.
    pub(crate) const OWN: usize = 254;
    /// The lane of all other priorities.
    pub(crate) const SHARED: Self = Self(7);
    /// The lane of buried jobs.
    pub(crate) const BURIED: Self = Self(8);
    /// No lane comes before this one, or after the other one.
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u8::MAX);

    /// The lane of a topic's priority that has this place among those with lanes of their own. They lie around the two
    /// others, which have had their bytes since there were seven.
    pub(crate) fn own(place: usize) -> Self {
        let index = if place < usize::from(Self::SHARED.0) { place } else { place + 2 };
        u8::try_from(index).map_or(Self::SHARED, Self)
    }

    /// The place of its priority among those with lanes of their own, if it is one of those.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::SHARED | Self::BURIED => None,
            Self(index) if index < Self::SHARED.0 => Some(usize::from(index)),
            Self(index) => Some(usize::from(index) - 2),
        }
    }

    pub(crate) fn from_index(index: u8) -> Self {
        Self(index)
    }

    pub(crate) fn index(self) -> u8 {
        self.0
    }
}

/// A row of jobs, by due time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slice {
    pub(crate) topic: TopicId,
    pub(crate) line: Line,
    pub(crate) lane: Lane,
}

/// Where a job stands among all in the cold tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) slice: Slice,
    pub(crate) due_at: Timestamp,
    pub(crate) number: Number,
}

impl Key {
    /// Bytes of an encoded key.
    pub(crate) const BYTES: usize = 23;

    pub(crate) fn new(slice: Slice, (due_at, number): Place) -> Self {
        Self { slice, due_at, number }
    }

    pub(crate) fn place(&self) -> Place {
        (self.due_at, self.number)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.slice.topic.0);
        put_u16(out, self.slice.line.index());
        out.push(self.slice.lane.index());
        put_u64(out, self.due_at.as_millis());
        put_u64(out, self.number.get());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        let topic = TopicId(reader.u32()?);
        let (line, lane) = line_and_lane(reader)?;
        let due_at = Timestamp::from_millis(reader.u64()?).map_err(|_| reader.invalid("time"))?;
        let number = Number::new(reader.u64()?).ok_or_else(|| reader.invalid("number"))?;
        Ok(Self { slice: Slice { topic, line, lane }, due_at, number })
    }
}

/// A copy of a job in the cold tier that is no longer true: the job has changed since, or is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// Where it stands.
    pub(crate) key: Key,
    /// The last change it has: no two copies have the same.
    pub(crate) version: Version,
    /// It is in the cold tier only if everything up to this sequence is.
    pub(crate) since: u64,
}

/// A line, then a lane, in three bytes.
pub(crate) fn line_and_lane(reader: &mut Reader<'_>) -> Result<(Line, Lane), Damage> {
    let line = Line::from_index(reader.u16()?).ok_or_else(|| reader.invalid("line"))?;
    let lane = Lane::from_index(reader.u8()?);
    Ok((line, lane))
}

/// Before every place.
pub(crate) fn first_place() -> Place {
    (Timestamp::EPOCH, Number::new(0).expect("zero is a number"))
}

/// The first place after this one.
pub(crate) fn after_place((due_at, number): Place) -> Place {
    match Number::new(number.get() + 1) {
        Some(number) => (due_at, number),
        None => after_time(due_at),
    }
}

/// The first place of what is due after `at`.
pub(crate) fn after_time(at: Timestamp) -> Place {
    match Timestamp::from_millis(at.as_millis().saturating_add(1)) {
        Ok(at) => (at, first_place().1),
        Err(_) => (Timestamp::MAX, Number::new(limits::NUMBER_END - 1).expect("the largest number is one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_lane_of_its_own() {
        for place in 0..Lane::OWN {
            let lane = Lane::own(place);
            assert_eq!(lane.place(), Some(place));
            assert_eq!(Lane::from_index(lane.index()), lane);
        }
        assert_eq!((Lane::own(0).index(), Lane::own(6).index(), Lane::own(7).index()), (0, 6, 9));
        assert_eq!(Lane::own(Lane::OWN), Lane::SHARED);
        assert_eq!((Lane::SHARED.place(), Lane::BURIED.place()), (None, None));
    }
}
