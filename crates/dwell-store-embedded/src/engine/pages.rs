//! A paged array of slots: a slot never moves, the lowest free index is reused first, and an empty page is freed.

use std::collections::BTreeSet;

/// The place of a slot.
pub(super) type Index = u32;

/// Slots in a page.
const SLOTS_A_PAGE: u32 = 256;

/// Bytes of the slots and of the list of places that a page takes.
const fn page_size<T>() -> usize {
    SLOTS_A_PAGE as usize * (size_of::<Option<T>>() + size_of::<u8>())
}

/// Slots by index.
pub(super) struct Pages<T> {
    row: Vec<Option<Page<T>>>,
    /// Pages that are there and have room.
    roomy: BTreeSet<u32>,
    /// Pages that are not there.
    absent: Vec<u32>,
}

struct Page<T> {
    slots: Vec<Option<T>>,
    /// Places that were taken and are free again.
    free: Vec<u8>,
}

impl<T> Page<T> {
    fn new() -> Self {
        Self { slots: Vec::with_capacity(SLOTS_A_PAGE as usize), free: Vec::new() }
    }

    fn taken(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn insert(&mut self, value: T) -> u8 {
        if let Some(place) = self.free.pop() {
            self.slots[usize::from(place)] = Some(value);
            return place;
        }
        self.slots.push(Some(value));
        u8::try_from(self.slots.len() - 1).expect("a page has 256 places")
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { row: Vec::new(), roomy: BTreeSet::new(), absent: Vec::new() }
    }
}

impl<T> Pages<T> {
    pub(super) fn insert(&mut self, value: T) -> Index {
        let number = self.roomy.first().copied().unwrap_or_else(|| self.begin_page());
        let page = self.row[number as usize].as_mut().expect("a page with room is there");
        let place = page.insert(value);
        if page.taken() == SLOTS_A_PAGE as usize {
            self.roomy.remove(&number);
        }
        number * SLOTS_A_PAGE + Index::from(place)
    }

    fn begin_page(&mut self) -> u32 {
        let number = self.absent.pop().unwrap_or_else(|| {
            self.row.push(None);
            let number = u32::try_from(self.row.len() - 1).ok();
            number.filter(|number| *number < u32::MAX / SLOTS_A_PAGE).expect("memory ends before 2^32 jobs")
        });
        self.row[number as usize] = Some(Page::new());
        self.roomy.insert(number);
        number
    }

    pub(super) fn remove(&mut self, index: Index) -> Option<T> {
        let number = index / SLOTS_A_PAGE;
        let place = u8::try_from(index % SLOTS_A_PAGE).expect("a page has 256 places");
        let page = self.row.get_mut(number as usize)?.as_mut()?;
        let value = page.slots.get_mut(usize::from(place))?.take()?;
        page.free.push(place);
        if page.taken() == 0 {
            self.row[number as usize] = None;
            self.roomy.remove(&number);
            self.absent.push(number);
        } else if page.taken() == SLOTS_A_PAGE as usize - 1 {
            self.roomy.insert(number);
        }
        Some(value)
    }

    #[inline]
    pub(super) fn get(&self, index: Index) -> Option<&T> {
        self.row.get((index / SLOTS_A_PAGE) as usize)?.as_ref()?.slots.get((index % SLOTS_A_PAGE) as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: Index) -> Option<&mut T> {
        self.row
            .get_mut((index / SLOTS_A_PAGE) as usize)?
            .as_mut()?
            .slots
            .get_mut((index % SLOTS_A_PAGE) as usize)?
            .as_mut()
    }

    /// No index is this large or larger.
    pub(super) fn end(&self) -> Index {
        u32::try_from(self.row.len()).expect("memory ends before 2^32 jobs") * SLOTS_A_PAGE
    }

    /// Bytes of memory all pages take.
    pub(super) fn held(&self) -> usize {
        (self.row.len() - self.absent.len()) * page_size::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_lowest_page_first_and_empty_pages_are_given_back() {
        let mut pages = Pages::default();
        let all: Vec<Index> = (0..1_000_u32).map(|value| pages.insert(value)).collect();
        assert_eq!(all, (0..1_000).collect::<Vec<_>>());
        let full = pages.held();
        assert_eq!(full, 4 * page_size::<u32>());
        for index in 256..900 {
            assert_eq!(pages.remove(index), Some(index));
            assert_eq!(pages.remove(index), None);
        }
        assert_eq!(pages.held(), full / 2, "two pages are empty");
        assert_eq!(pages.get(300), None);
        assert_eq!((pages.remove(7), pages.remove(3)), (Some(7), Some(3)));
        let mut taken: Vec<Index> = (0..2).map(|_| pages.insert(0)).collect();
        taken.sort_unstable();
        assert_eq!(taken, [3, 7], "the lowest page first");
        assert_eq!(pages.insert(1) / SLOTS_A_PAGE, 3, "then the next that has room");
        for _ in 0..1_000 {
            pages.insert(2);
        }
        let there = (0..pages.end()).filter(|index| pages.get(*index).is_some()).count();
        assert_eq!(there, 1_000 - 644 + 1 + 1_000);
        for index in 0..pages.end() {
            pages.remove(index);
        }
        assert_eq!(pages.held(), 0);
    }
}
