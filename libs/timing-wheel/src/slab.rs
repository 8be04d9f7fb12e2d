//! The entries themselves, each at an index that stays the same for as long as it lives.
//!
//! Memory is taken a chunk at a time and never moved: growing from ten million entries to ten
//! million and one copies nothing. It is kept for later entries when the wheel empties.

use std::num::NonZeroU32;

use crate::chunked::Chunked;
use crate::key::Key;
use crate::place::Place;

/// The end of the free list.
const NIL: u32 = u32::MAX;

/// What the wheel knows of one entry.
pub(crate) struct Entry<V> {
    /// As the caller gave it, even when it had already passed.
    pub(crate) deadline: u64,
    pub(crate) place: Place,
    generation: NonZeroU32,
    pub(crate) value: V,
}

enum Node<V> {
    Live(Entry<V>),
    /// `generation` is that of the entry to come.
    Free {
        next: u32,
        generation: NonZeroU32,
    },
}

/// Entries by index, and by key.
pub(crate) struct Slab<V> {
    nodes: Chunked<Node<V>>,
    first_free: u32,
    len: usize,
}

impl<V> Slab<V> {
    pub(crate) const fn new() -> Self {
        Self { nodes: Chunked::new(), first_free: NIL, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Stores an entry whose place is to be set next.
    pub(crate) fn insert(&mut self, deadline: u64, value: V) -> Key {
        self.len += 1;
        let index = self.first_free;
        if index == NIL {
            return self.grow(deadline, value);
        }
        let node = &mut self.nodes[index];
        let Node::Free { next, generation } = *node else { unreachable!("the free list names a live entry") };
        *node = Node::Live(Entry { deadline, place: Place::NOWHERE, generation, value });
        self.first_free = next;
        Key { index, generation }
    }

    /// Removes a live entry. Its key, and every copy of it, is stale from here on.
    pub(crate) fn remove(&mut self, index: u32) -> Entry<V> {
        let node = &mut self.nodes[index];
        let generation = match node {
            Node::Live(entry) => entry.generation,
            Node::Free { .. } => unreachable!("removing an entry that is not there"),
        };
        // A node whose generations are used up is retired: four billion uses cost one node.
        let next_generation = generation.checked_add(1);
        let next = self.first_free;
        let free = Node::Free { next, generation: next_generation.unwrap_or(generation) };
        let Node::Live(entry) = std::mem::replace(node, free) else { unreachable!("it was live a line ago") };
        if next_generation.is_some() {
            self.first_free = index;
        }
        self.len -= 1;
        entry
    }

    /// The entry that `key` names, unless it is stale.
    pub(crate) fn get(&self, key: Key) -> Option<&Entry<V>> {
        match self.nodes.get(key.index)? {
            Node::Live(entry) if entry.generation == key.generation => Some(entry),
            _ => None,
        }
    }

    /// As [`get`](Self::get).
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Entry<V>> {
        match self.nodes.get_mut(key.index)? {
            Node::Live(entry) if entry.generation == key.generation => Some(entry),
            _ => None,
        }
    }

    /// The deadline of a live entry.
    pub(crate) fn deadline(&self, index: u32) -> u64 {
        match &self.nodes[index] {
            Node::Live(entry) => entry.deadline,
            Node::Free { .. } => unreachable!("a slot names an entry that is not there"),
        }
    }

    /// Records where a live entry stands.
    pub(crate) fn set_place(&mut self, index: u32, place: Place) {
        match &mut self.nodes[index] {
            Node::Live(entry) => entry.place = place,
            Node::Free { .. } => unreachable!("a slot names an entry that is not there"),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Entry<V>)> {
        self.nodes.iter().zip(0..).filter_map(|(node, index)| match node {
            Node::Live(entry) => Some((entry.key(index), entry)),
            Node::Free { .. } => None,
        })
    }

    fn grow(&mut self, deadline: u64, value: V) -> Key {
        let generation = NonZeroU32::MIN;
        let index = self.nodes.push(Node::Live(Entry { deadline, place: Place::NOWHERE, generation, value }));
        Key { index: u32::try_from(index).expect("blocks run out before indexes do"), generation }
    }
}

impl<V> Entry<V> {
    /// The key of this entry, which stands at `index`.
    pub(crate) fn key(&self, index: u32) -> Key {
        Key { index, generation: self.generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside this an entry has a thirtieth of a block, four and a half bytes.
    #[test]
    fn an_entry_costs_sixteen_bytes_beside_its_value() {
        assert_eq!(size_of::<Node<u64>>(), 16 + 8);
        assert_eq!(size_of::<Node<[u64; 4]>>(), 16 + 32);
        assert_eq!(size_of::<Node<()>>(), 16);
    }

    #[test]
    fn a_used_up_node_is_retired_instead_of_answering_to_an_old_key() {
        let mut slab = Slab::new();
        let first = slab.insert(1, 'a');
        slab.remove(first.index);
        slab.nodes[first.index] = Node::Free { next: NIL, generation: NonZeroU32::MAX };
        let last = slab.insert(2, 'b');
        assert_eq!((last.index, last.generation), (first.index, NonZeroU32::MAX));
        slab.remove(last.index);
        let next = slab.insert(3, 'c');
        assert_ne!(next.index, first.index);
        assert!(slab.get(last).is_none() && slab.get(first).is_none());
    }
}
