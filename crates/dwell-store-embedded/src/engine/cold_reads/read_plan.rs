//! The read plan of a command: which rows of the cold tier it needs before it can run on memory alone.

use dwell_core::{
    JobId, JobRef, LeaseFrom, LeaseRequest, Line, ListQuery, Lookup, NewId, Purge, Redrive, RedriveTopic, Section,
    State, TimelineQuery, Timestamp, TopicName, TopicsQuery,
};

use super::super::leases::is_blocked;
use super::super::queries;
use super::super::topic::Topic;
use super::super::{Command, Engine};
use super::{READY_WINDOW, ReadNeed, ReadState};
use crate::format::key::{Slice, after_time, first_place};
use crate::format::record::TopicId;
use crate::format::run::id_hash;
use crate::sim_bugs::{self, Bug};

impl Command {
    /// What this command still needs of the cold tier before it can run on memory alone.
    pub(super) fn missing(&self, engine: &mut Engine, known: &ReadState) -> Option<ReadNeed> {
        let none = std::iter::empty::<&JobRef>;
        if self.topics_looked_at(engine).into_iter().any(|topic| engine.is_passing(topic)) {
            return Some(ReadNeed::ColdSlices);
        }
        match self {
            // What is in memory has not been dropped since, and what is not has been looked up.
            Self::Put { .. } | Self::Change { .. } | Self::Cancel { .. } if known.is_complete => None,
            Self::Put { jobs, .. } => {
                let named = jobs.iter().filter_map(|new| match &new.id {
                    NewId::Named(id) => Some((&new.topic, id)),
                    _ => None,
                });
                engine.missing_jobs(known, named, none())
            }
            Self::Change { items, .. } => engine.missing_refs(known, items.iter().map(|item| &item.job)),
            Self::Cancel { items, .. } => engine.missing_refs(known, items.iter().map(|item| &item.job)),
            Self::Get { items, .. } => engine.missing_looks(known, items),
            Self::Lease { request, .. } => engine.missing_lease(known, request),
            Self::List { query, .. } => engine.missing_page(known, query),
            Self::Topic { name, .. } => engine.missing_info(known, name),
            Self::Topics { query, .. } => engine.missing_infos(known, query),
            Self::Timeline { query, .. } => engine.missing_timeline(known, query),
            Self::Redrive { what: Redrive::Number(number), .. } => {
                engine.missing_refs(known, std::iter::once(&JobRef::Number(*number)))
            }
            Self::Redrive { what: Redrive::Topic(redrive), .. } => engine.missing_letters(known, redrive),
            Self::Purge { name, what: Purge::Jobs(state), .. } => engine.missing_purge(known, name, *state),
            Self::Settle { .. }
            | Self::SetPolicy { .. }
            | Self::Pause { .. }
            | Self::Purge { .. }
            | Self::GiveBack { .. } => None,
        }
    }

    /// Topics of which it asks more than single jobs.
    pub(super) fn topics_looked_at(&self, engine: &Engine) -> Vec<TopicId> {
        let one = |name: &TopicName| engine.names.get(name).copied().into_iter().collect();
        match self {
            Self::List { query, .. } => one(&query.topic),
            // What the old policy has done to jobs, the new one does not undo.
            Self::Topic { name, .. } | Self::Purge { name, .. } | Self::SetPolicy { name, .. } => one(name),
            Self::Topics { query, .. } => engine.named(query).map(|name| engine.names[name]).collect(),
            Self::Redrive { what: Redrive::Topic(redrive), .. } => one(&redrive.topic),
            Self::Timeline { query, .. } => query.topic().map(one).unwrap_or_default(),
            Self::Get { items, .. } => {
                let next = items.iter().filter_map(|item| match item {
                    Lookup::Next(name, _) => engine.names.get(name).copied(),
                    Lookup::Job(_) => None,
                });
                next.collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Read plans by kind of command.
impl Engine {
    fn missing_refs<'a>(&self, known: &ReadState, jobs: impl Iterator<Item = &'a JobRef> + Clone) -> Option<ReadNeed> {
        let named = jobs.clone().filter_map(|job| match job {
            JobRef::Named(topic, id) => Some((topic, id)),
            JobRef::Number(_) => None,
        });
        self.missing_jobs(known, named, jobs)
    }

    fn missing_jobs<'a>(
        &self,
        known: &ReadState,
        named: impl Iterator<Item = (&'a TopicName, &'a JobId)>,
        numbered: impl Iterator<Item = &'a JobRef>,
    ) -> Option<ReadNeed> {
        let mut ids = Vec::new();
        // Most calls name one topic again and again.
        let mut last: Option<(&TopicName, Option<TopicId>)> = None;
        for (name, id) in named {
            let topic = match last {
                Some((of, topic)) if of == name => topic,
                _ => self.partly_cold(name),
            };
            last = Some((name, topic));
            let Some(topic) = topic else { continue };
            let is_cold = self.cold.view.may_have(id_hash(topic, id.as_str().as_bytes()))
                && self.slots.by_id(topic, id.as_str()).is_none();
            if is_cold {
                let name = (topic, id.clone());
                if !known.looked_up.contains(&name) && !known.absent.contains(&name) {
                    ids.push(name);
                }
            }
        }
        let mut numbers = Vec::new();
        for job in numbered {
            if let JobRef::Number(number) = job
                && self.slots.by_number(*number).is_none()
                && !known.numbers_looked_up.contains(number)
            {
                numbers.push(*number);
            }
        }
        (!ids.is_empty() || !numbers.is_empty()).then_some(ReadNeed::Jobs(ids, numbers))
    }

    /// The topic of this name, if it has rows that are not resident.
    fn partly_cold(&self, name: &TopicName) -> Option<TopicId> {
        let topic = &self.topics[self.names.get(name)?];
        topic.slices.values().any(|of| of.away() > 0).then_some(topic.id)
    }

    fn missing_looks(&mut self, known: &ReadState, items: &[Lookup]) -> Option<ReadNeed> {
        let jobs = items.iter().filter_map(|item| if let Lookup::Job(job) = item { Some(job) } else { None });
        self.missing_refs(known, jobs).or_else(|| {
            items.iter().find_map(|item| {
                let Lookup::Next(name, state) = item else { return None };
                let topic = &self.topics[self.names.get(name)?];
                match state {
                    State::Ready => {
                        let slice = self.short_of(topic, Line::PULL, 1)?;
                        self.cold.wanted.insert(slice);
                        Some(ReadNeed::ColdSlices)
                    }
                    State::Delayed => known.missing(topic, false, after_time(known.at), after_time(self.now.at), 1),
                    State::Buried => known.missing(topic, true, first_place(), first_place(), 1),
                    State::Leased => None,
                }
            })
        })
    }

    /// A slice of which more must be in memory before so many jobs of a line can be handed out in order. What is due on
    /// the shared lane may be of any of its priorities: as much of it as memory has room for is looked at first.
    fn short_of(&self, topic: &Topic, line: Line, jobs: usize) -> Option<Slice> {
        let looks = self.has_room_to_prefetch() && !sim_bugs::is(Bug::SharedLaneUnread);
        let shared_jobs = if looks { READY_WINDOW.max(jobs) } else { jobs };
        topic.behind(line, self.now.at).find_map(|(rank, slice)| {
            let ready = topic.ready.get(&line);
            let before = match (ready, rank) {
                (None, _) => 0,
                (Some(ready), Some(rank)) => ready.range(..rank).take(jobs).count(),
                (Some(ready), None) => {
                    let shared = ready.keys().filter(|(priority, ..)| !topic.lanes.contains(priority));
                    shared.take(shared_jobs).count()
                }
            };
            let enough = if rank.is_some() { jobs } else { shared_jobs };
            (before < enough).then_some(slice)
        })
    }

    fn missing_lease(&self, known: &ReadState, request: &LeaseRequest) -> Option<ReadNeed> {
        if let LeaseFrom::Number(number) = request.from {
            return self.missing_refs(known, std::iter::once(&JobRef::Number(number)));
        }
        // What else it needs it waits for in line.
        None
    }

    /// Whether a lease must wait for reads; then the slices it needs are in `wanted`.
    pub(in super::super) fn is_short(&mut self, request: &LeaseRequest) -> bool {
        if self.cold.view.runs.is_empty() {
            return false;
        }
        let jobs = request.max as usize;
        let short: Vec<Slice> = match &request.from {
            LeaseFrom::Number(_) => Vec::new(),
            LeaseFrom::Pull(names) => {
                let topics = names.iter().filter_map(|name| self.topics.get(self.names.get(name)?));
                let pulled = topics.filter(|topic| topic.policy.deliver_to.is_none());
                let open: Vec<&Topic> = pulled.filter(|topic| topic.lets_go(self.now.at)).collect();
                let ahead: Vec<Slice> = open.iter().flat_map(|topic| self.prefetch_candidates(topic)).collect();
                let short = open.iter().filter_map(|topic| self.short_of(topic, Line::PULL, jobs)).collect();
                // The next call will need it.
                self.cold.wanted.extend(ahead);
                short
            }
            LeaseFrom::Push(lines) => {
                let topics = self.pushing.iter().filter_map(|id| self.topics.get(id));
                let open = topics.filter(|topic| topic.lets_go(self.now.at));
                let jobs = jobs.min(lines.per_line.max(1) as usize);
                open.flat_map(|topic| {
                    let pushed = topic.pushed_lines(self.now.at).into_iter();
                    let open = pushed.filter(|line| !is_blocked(lines, &topic.name, *line));
                    open.filter_map(|line| self.short_of(topic, line, jobs)).collect::<Vec<_>>()
                })
                .collect()
            }
        };
        let is_short = !short.is_empty();
        self.cold.wanted.extend(short);
        is_short
    }

    fn missing_page(&self, known: &ReadState, query: &ListQuery) -> Option<ReadNeed> {
        let topic = &self.topics[self.names.get(&query.topic)?];
        let need = query.limit as usize + 1;
        let waiting = queries::wants(query, Section::Waiting).then(|| {
            let from = |now| queries::begin(query, Section::Waiting, now);
            known.missing(topic, false, from(known.at), from(self.now.at), need)
        });
        if let Some(missing) = waiting.flatten() {
            return Some(missing);
        }
        let buried = queries::wants(query, Section::Buried)
            && queries::places(topic, query, self.now.at).take(need).count() < need + topic.buried.len();
        let from = queries::begin(query, Section::Buried, self.now.at);
        buried.then(|| known.missing(topic, true, from, from, need)).flatten()
    }

    fn missing_infos(&self, known: &ReadState, query: &TopicsQuery) -> Option<ReadNeed> {
        self.named(query).find_map(|name| self.missing_info(known, name))
    }

    fn missing_info(&self, known: &ReadState, name: &TopicName) -> Option<ReadNeed> {
        let topic = &self.topics[self.names.get(name)?];
        let due = topic.cold_slices(false).filter(|(_, of)| of.away() > 0 && of.first <= known.at);
        let due: Vec<(Slice, Timestamp)> = due.map(|(slice, _)| (slice, known.at)).collect();
        let oldest = || known.missing(topic, false, first_place(), first_place(), 1);
        let next = || known.missing(topic, false, after_time(known.at), after_time(self.now.at), 1);
        if due.is_empty() {
            return next();
        }
        let ranks: Vec<_> = due.into_iter().filter(|rank| !known.ranks.contains_key(rank)).collect();
        if ranks.is_empty() { oldest().or_else(next) } else { Some(ReadNeed::Ranks(ranks)) }
    }

    fn missing_timeline(&self, known: &ReadState, query: &TimelineQuery) -> Option<ReadNeed> {
        let Some(name) = query.topic() else {
            return (!self.cold.gone.is_empty()).then_some(ReadNeed::Flush);
        };
        let topic = &self.topics[self.names.get(name)?];
        let slices = topic.cold_slices(false).filter(|(_, of)| of.copies > 0 || !of.stale.is_empty());
        let ranks = slices.flat_map(|(slice, _)| queries::edges(query).map(move |edge| (slice, edge)));
        let ranks: Vec<_> = ranks.filter(|rank| !known.ranks.contains_key(rank)).collect();
        (!ranks.is_empty()).then_some(ReadNeed::Ranks(ranks))
    }

    fn missing_letters(&self, known: &ReadState, redrive: &RedriveTopic) -> Option<ReadNeed> {
        let topic = &self.topics[self.names.get(&redrive.topic)?];
        if let Some(ids) = &redrive.ids {
            let named = ids.iter().map(|id| (&redrive.topic, id));
            return self.missing_jobs(known, named, std::iter::empty());
        }
        let need = redrive.max as usize;
        if topic.away(true) > 0 {
            // Those with the reason that is asked for are counted: so all of them are looked at.
            let all = if redrive.reason.is_some() { usize::MAX } else { need };
            let missing = known.missing(topic, true, first_place(), first_place(), all);
            return missing.map(|missing| match missing {
                ReadNeed::Stretch { name, after, limit, .. } => {
                    ReadNeed::Stretch { name, after, limit, only: Some(Box::new(redrive.clone())) }
                }
                other => other,
            });
        }
        let kicks = redrive.else_delayed && topic.buried.is_empty();
        let from = after_time(known.at);
        kicks.then(|| known.missing(topic, false, from, after_time(self.now.at), need)).flatten()
    }

    fn missing_purge(&self, known: &ReadState, name: &TopicName, state: State) -> Option<ReadNeed> {
        let topic = &self.topics[self.names.get(name)?];
        let (buried, from) = match state {
            State::Delayed => (false, after_time(known.at)),
            State::Ready => (false, first_place()),
            State::Buried => (true, first_place()),
            State::Leased => return None,
        };
        if topic.away(buried) == 0 || known.purged_all {
            return None;
        }
        let until = if state == State::Ready { known.at } else { Timestamp::MAX };
        Some(ReadNeed::Purge { topic: topic.id, buried, from: known.purged_until.max(from), until })
    }
}
