//! What can be done together: consecutive puts are one batch of the store, and so are reserves, and what settles jobs.

use std::collections::VecDeque;

use beanstalk_protocol::{Command, Decoder, Event, Put, Refusal, Reply, Tube};
use dwell_core::{NewJob, State, TopicName};

use super::registry::Counted;
use super::session::Session;
use super::settle::Ask;
use super::{Edge, names, put};

/// Jobs, and bytes of them, that are put together at the most; the rest of a pipeline follows.
const MOST_JOBS: usize = 2_048;
const MOST_BYTES: usize = 1 << 20;
/// Jobs settled together at the most.
const MOST_ASKS: usize = 2_048;
/// Jobs reserved together at the most.
const MOST_RESERVES: usize = 512;

/// Commands of one kind that wait to be done together, and what is answered between their answers.
#[derive(Default)]
pub(super) struct Run {
    pub(super) items: Items,
    pub(super) between: Between,
}

/// The commands.
#[derive(Default)]
pub(super) enum Items {
    #[default]
    None,
    Puts {
        jobs: Vec<NewJob>,
        bytes: usize,
    },
    Asks(Vec<Ask>),
    /// How long each reserve waits: so many seconds, or for ever.
    Reserves(VecDeque<Option<u32>>),
}

/// Answers that need no store, each to be given after those to so many commands of the run.
#[derive(Default)]
pub(super) struct Between(VecDeque<(usize, Vec<u8>)>);

impl Between {
    /// Writes what is to be answered once so many commands of the run are.
    pub(super) fn write(&mut self, answered: usize, out: &mut Vec<u8>) {
        while self.0.front().is_some_and(|(after, _)| *after <= answered) {
            out.extend(self.0.pop_front().map(|(_, text)| text).unwrap_or_default());
        }
    }
}

/// What to do about a command.
pub(super) enum Next {
    /// Nothing more: it is answered, or waits in the run.
    Taken,
    /// Do the run first, then look at it again.
    RunFirst,
    /// Do it alone; the run is empty.
    Alone(Alone),
    /// Close the connection, once the run is done.
    Close,
    /// More must be received.
    More,
}

/// A command that is done alone.
pub(super) enum Alone {
    ReserveJob(u64),
    Peek(u64),
    PeekNext(State),
    Kick(u32),
    KickJob(u64),
    Stats,
    StatsJob(u64),
    StatsTube(TopicName),
    ListTubes,
    PauseTube(TopicName, u32),
}

/// What a command is taken with.
pub(super) struct Taking<'a> {
    pub(super) edge: &'a Edge,
    pub(super) session: &'a mut Session,
    pub(super) out: &'a mut Vec<u8>,
}

impl Run {
    /// Reads the next command and says what to do about it, and how many bytes are dealt with: none if the run goes
    /// first.
    pub(super) fn next(&mut self, decoder: &mut Decoder, buffer: &[u8], taking: &mut Taking<'_>) -> (usize, Next) {
        let step = decoder.decode(buffer);
        let next = match step.event {
            None => Next::More,
            Some(Event::Http) => {
                tracing::info!("an HTTP request came in over beanstalk; the connection is closed");
                Next::Close
            }
            Some(Event::Refused(why)) => {
                // As beanstalkd counts them.
                if matches!(why, Refusal::JobTooBig | Refusal::ExpectedCrlf) {
                    taking.edge.registry.count(Counted::Put);
                }
                if why == Refusal::ExpectedCrlf {
                    taking.session.is_producer();
                }
                self.answer(Reply::from(why), taking)
            }
            Some(Event::Put { put, body }) => self.put(put, body, taking),
            Some(Event::Command(command)) => self.command(command, taking),
        };
        let consumed = if matches!(next, Next::RunFirst) { 0 } else { step.consumed };
        (consumed, next)
    }

    fn len(&self) -> usize {
        match &self.items {
            Items::None => 0,
            Items::Puts { jobs, .. } => jobs.len(),
            Items::Asks(asks) => asks.len(),
            Items::Reserves(reserves) => reserves.len(),
        }
    }

    /// Answers without a store: at once, or in its turn.
    fn answer(&mut self, reply: Reply<'_>, taking: &mut Taking<'_>) -> Next {
        if matches!(self.items, Items::None) {
            reply.write(taking.out);
        } else {
            let mut text = Vec::new();
            reply.write(&mut text);
            self.between.0.push_back((self.len(), text));
        }
        Next::Taken
    }

    fn put(&mut self, put: Put, body: &[u8], taking: &mut Taking<'_>) -> Next {
        match &self.items {
            Items::None => self.items = Items::Puts { jobs: Vec::new(), bytes: 0 },
            Items::Puts { jobs, bytes } if jobs.len() < MOST_JOBS && *bytes < MOST_BYTES => {}
            Items::Puts { .. } | Items::Asks(_) | Items::Reserves(_) => return Next::RunFirst,
        }
        taking.edge.registry.count(Counted::Put);
        taking.session.is_producer();
        if taking.edge.is_draining() {
            return self.answer(Reply::Draining, taking);
        }
        let Some(job) = put::job(taking.edge, taking.session, put, body) else {
            return self.answer(Reply::BadFormat, taking);
        };
        if let Items::Puts { jobs, bytes } = &mut self.items {
            *bytes += body.len();
            jobs.push(job);
        }
        Next::Taken
    }

    fn command(&mut self, command: Command<'_>, taking: &mut Taking<'_>) -> Next {
        match command {
            Command::Reserve => self.reserve(None, Counted::Reserve, taking),
            Command::ReserveWithTimeout(seconds) => self.reserve(Some(seconds), Counted::ReserveWithTimeout, taking),
            Command::Delete(id) => self.ask(Ask::Delete(id), Counted::Delete, taking),
            Command::Release { id, priority, delay } => {
                self.ask(Ask::Release { id, priority, delay }, Counted::Release, taking)
            }
            Command::Bury { id, priority } => self.ask(Ask::Bury { id, priority }, Counted::Bury, taking),
            Command::Touch(id) => self.ask(Ask::Touch(id), Counted::Touch, taking),
            Command::Use(tube) => self.use_tube(tube, taking),
            Command::Watch(tube) => self.watch(tube, taking),
            Command::Ignore(tube) => self.ignore(tube, taking),
            Command::ListTubeUsed => {
                taking.edge.registry.count(Counted::ListTubeUsed);
                let used = taking.session.used().clone();
                self.answer(Reply::Using(names::tube(&used)), taking)
            }
            Command::ListTubesWatched => {
                taking.edge.registry.count(Counted::ListTubesWatched);
                let list = names::list(taking.session.watched());
                self.answer(Reply::Ok(&list), taking)
            }
            Command::Quit => Next::Close,
            Command::Put(_) => unreachable!("a put comes with its body"),
            other => self.alone(other, taking),
        }
    }

    fn alone(&mut self, command: Command<'_>, taking: &mut Taking<'_>) -> Next {
        if !matches!(self.items, Items::None) {
            return Next::RunFirst;
        }
        let topic = |tube: Tube<'_>| names::topic(tube);
        let (counted, alone) = match command {
            Command::ReserveJob(id) => (None, Some(Alone::ReserveJob(id))),
            Command::KickJob(id) => (None, Some(Alone::KickJob(id))),
            Command::Peek(id) => (Some(Counted::Peek), Some(Alone::Peek(id))),
            Command::PeekReady => (Some(Counted::PeekReady), Some(Alone::PeekNext(State::Ready))),
            Command::PeekDelayed => (Some(Counted::PeekDelayed), Some(Alone::PeekNext(State::Delayed))),
            Command::PeekBuried => (Some(Counted::PeekBuried), Some(Alone::PeekNext(State::Buried))),
            Command::Kick(bound) => (Some(Counted::Kick), Some(Alone::Kick(bound))),
            Command::Stats => (Some(Counted::Stats), Some(Alone::Stats)),
            Command::StatsJob(id) => (Some(Counted::StatsJob), Some(Alone::StatsJob(id))),
            Command::StatsTube(tube) => (Some(Counted::StatsTube), topic(tube).map(Alone::StatsTube)),
            Command::ListTubes => (Some(Counted::ListTubes), Some(Alone::ListTubes)),
            Command::PauseTube { tube, delay } => {
                (Some(Counted::PauseTube), topic(tube).map(|topic| Alone::PauseTube(topic, delay)))
            }
            _ => unreachable!("all others are taken before"),
        };
        if let Some(counted) = counted {
            taking.edge.registry.count(counted);
        }
        match alone {
            Some(alone) => Next::Alone(alone),
            // The name of a tube that can never be.
            None => self.answer(Reply::NotFound, taking),
        }
    }

    fn ask(&mut self, ask: Ask, counted: Counted, taking: &mut Taking<'_>) -> Next {
        match &mut self.items {
            Items::None => self.items = Items::Asks(vec![ask]),
            Items::Asks(asks) if asks.len() < MOST_ASKS => asks.push(ask),
            Items::Asks(_) | Items::Puts { .. } | Items::Reserves(_) => return Next::RunFirst,
        }
        taking.edge.registry.count(counted);
        Next::Taken
    }

    fn reserve(&mut self, timeout: Option<u32>, counted: Counted, taking: &mut Taking<'_>) -> Next {
        match &mut self.items {
            Items::None => self.items = Items::Reserves(VecDeque::from([timeout])),
            Items::Reserves(reserves) if reserves.len() < MOST_RESERVES => reserves.push_back(timeout),
            Items::Asks(_) | Items::Puts { .. } | Items::Reserves(_) => return Next::RunFirst,
        }
        taking.edge.registry.count(counted);
        taking.session.is_worker();
        Next::Taken
    }

    fn use_tube(&mut self, tube: Tube<'_>, taking: &mut Taking<'_>) -> Next {
        // Users put nothing into Dwell's own topics.
        let Some(topic) = names::topic(tube).filter(|topic| !topic.is_own()) else {
            return self.answer(Reply::BadFormat, taking);
        };
        taking.edge.registry.count(Counted::Use);
        taking.session.use_tube(topic);
        self.answer(Reply::Using(tube), taking)
    }

    fn watch(&mut self, tube: Tube<'_>, taking: &mut Taking<'_>) -> Next {
        if matches!(self.items, Items::Reserves(_)) {
            return Next::RunFirst;
        }
        let Some(topic) = names::topic(tube) else { return self.answer(Reply::BadFormat, taking) };
        taking.edge.registry.count(Counted::Watch);
        let reply = if taking.session.watch(topic) { watching(taking.session) } else { Reply::OutOfMemory };
        self.answer(reply, taking)
    }

    fn ignore(&mut self, tube: Tube<'_>, taking: &mut Taking<'_>) -> Next {
        if matches!(self.items, Items::Reserves(_)) {
            return Next::RunFirst;
        }
        taking.edge.registry.count(Counted::Ignore);
        let ignored = names::topic(tube).is_none_or(|topic| taking.session.ignore(&topic));
        let reply = if ignored { watching(taking.session) } else { Reply::NotIgnored };
        self.answer(reply, taking)
    }
}

fn watching(session: &Session) -> Reply<'static> {
    Reply::Watching(session.watched().len() as u64)
}
