//! What all connections have together: who uses and watches which tube, and what was asked how often.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dwell_core::TopicName;

/// What all connections have together.
#[derive(Default)]
pub(super) struct Registry {
    tubes: Mutex<BTreeMap<TopicName, TubeUse>>,
    commands: [AtomicU64; Counted::ALL.len()],
    pub(super) connections: AtomicU64,
    pub(super) total_connections: AtomicU64,
    pub(super) producers: AtomicU64,
    pub(super) workers: AtomicU64,
    pub(super) waiting: AtomicU64,
}

/// Past so many tubes it is forgotten how often those were paused that nobody uses or watches.
const MOST_TUBES: usize = 100_000;

/// What connections do with a tube. One that nobody uses, watches or has paused is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TubeUse {
    pub(super) using: u64,
    pub(super) watching: u64,
    /// How often it was paused.
    pub(super) pauses: u64,
    /// For how many seconds the last time.
    pub(super) pause: u32,
}

impl TubeUse {
    /// Whether someone uses or watches it.
    pub(super) fn is_had(self) -> bool {
        self.using > 0 || self.watching > 0
    }
}

/// Commands as `stats` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Put,
    Peek,
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Reserve,
    ReserveWithTimeout,
    Delete,
    Release,
    Use,
    Watch,
    Ignore,
    Bury,
    Kick,
    Touch,
    Stats,
    StatsJob,
    StatsTube,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube,
}

impl Counted {
    /// All of them with their names, in the order of `stats`.
    pub(super) const ALL: [(Self, &str); 22] = [
        (Self::Put, "put"),
        (Self::Peek, "peek"),
        (Self::PeekReady, "peek-ready"),
        (Self::PeekDelayed, "peek-delayed"),
        (Self::PeekBuried, "peek-buried"),
        (Self::Reserve, "reserve"),
        (Self::ReserveWithTimeout, "reserve-with-timeout"),
        (Self::Delete, "delete"),
        (Self::Release, "release"),
        (Self::Use, "use"),
        (Self::Watch, "watch"),
        (Self::Ignore, "ignore"),
        (Self::Bury, "bury"),
        (Self::Kick, "kick"),
        (Self::Touch, "touch"),
        (Self::Stats, "stats"),
        (Self::StatsJob, "stats-job"),
        (Self::StatsTube, "stats-tube"),
        (Self::ListTubes, "list-tubes"),
        (Self::ListTubeUsed, "list-tube-used"),
        (Self::ListTubesWatched, "list-tubes-watched"),
        (Self::PauseTube, "pause-tube"),
    ];
}

impl Registry {
    /// Counts one command.
    pub(super) fn count(&self, command: Counted) {
        self.commands[command as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often a command was given.
    pub(super) fn counted(&self, command: Counted) -> u64 {
        self.commands[command as usize].load(Ordering::Relaxed)
    }

    /// Changes what connections do with a tube.
    pub(super) fn change(&self, tube: &TopicName, change: impl FnOnce(&mut TubeUse)) {
        let mut tubes = self.tubes.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = tubes.entry(tube.clone()).or_default();
        change(entry);
        let (is_had, was_paused) = (entry.is_had(), entry.pauses > 0);
        if !is_had && !was_paused {
            tubes.remove(tube);
        } else if !is_had && tubes.len() > MOST_TUBES {
            tubes.retain(|_, entry| entry.is_had());
        }
    }

    /// What connections do with a tube, and did.
    pub(super) fn of(&self, tube: &TopicName) -> TubeUse {
        self.tubes.lock().unwrap_or_else(PoisonError::into_inner).get(tube).copied().unwrap_or_default()
    }

    /// All tubes that someone uses or watches, by name.
    pub(super) fn names(&self) -> Vec<TopicName> {
        let tubes = self.tubes.lock().unwrap_or_else(PoisonError::into_inner);
        tubes.iter().filter(|(_, entry)| entry.is_had()).map(|(name, _)| name.clone()).collect()
    }
}

/// One more, until it is dropped.
pub(super) struct OneMore<'a>(&'a AtomicU64);

impl<'a> OneMore<'a> {
    pub(super) fn of(counter: &'a AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for OneMore<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_under_their_own_names() {
        let registry = Registry::default();
        for (place, (command, name)) in Counted::ALL.into_iter().enumerate() {
            assert_eq!(command as usize, place, "{name}");
            registry.count(command);
            assert_eq!(registry.counted(command), 1, "{name}");
        }
    }

    #[test]
    fn a_tube_that_nobody_has_is_forgotten() {
        let (registry, tube) = (Registry::default(), TopicName::new("t").unwrap());
        registry.change(&tube, |entry| entry.using += 1);
        assert_eq!((registry.of(&tube).using, registry.names()), (1, vec![tube.clone()]));
        registry.change(&tube, |entry| entry.using -= 1);
        assert_eq!((registry.of(&tube), registry.names()), (TubeUse::default(), Vec::new()));
        registry.change(&tube, |entry| entry.pauses += 1);
        assert_eq!((registry.of(&tube).pauses, registry.names()), (1, Vec::new()), "paused, but not had");
    }
}
