//! What clients ask, in full.

use std::num::NonZeroU32;
use std::time::Duration;

use dwell_core::{
    Body, CancelItem, Change, ChangeItem, Delay, Delivery, DeliveryAnswer, Edit, Headers, IfExists, JobId, JobRef,
    Ladder, LeaseFrom, LeaseRequest, Line, ListQuery, Lookup, NewId, NewJob, Options, Priority, Purge, PushLines, Rate,
    Redrive, RedriveTopic, SetPause, Settle, State, Target, TimelineQuery, TopicName, TopicPolicy, Ttl, Ttr, Verdict,
    Version, When,
};

use super::starting::SEGMENT;
use super::{World, Wrong};
use crate::event::{Due, IDS, LARGEST_BODY, Name, Op, Policy, Put, TARGETS, TOPICS, Verb};
use crate::request::Request;

/// Turns in which all there is between jobs can be given back: a turn moves some 32 KiB.
const MOVING_TURNS: u64 = 16;

/// Bytes that a store with hardly any jobs may be reckoned to take.
const FIXED: usize = 19 << 10;

impl World {
    /// Sends what a client asks.
    pub(super) fn ask(&mut self, op: &Op) -> Result<(), Wrong> {
        if self.closing {
            return Ok(());
        }
        match op {
            Op::Put(puts) => {
                let jobs: Vec<NewJob> = puts.iter().map(|put| self.new_job(put)).collect();
                self.both(Request::Put(jobs))
            }
            Op::Lease { topics, max, wait, ttr, auto_ack } => {
                let topics = (0..TOPICS).filter(|topic| topics >> topic & 1 == 1).map(topic_name).collect();
                self.both(Request::Lease(LeaseRequest {
                    max: u32::try_from(*max).unwrap_or(1),
                    wait: Duration::from_millis(*wait),
                    ttr: ttr_of(*ttr),
                    auto_ack: *auto_ack,
                    ..LeaseRequest::from(LeaseFrom::Pull(topics))
                }))
            }
            Op::Push { max, per_line, lines, topics, wait, auto_ack } => {
                let of = |mask: u64, many: u64| (0..many).filter(move |k| mask >> k & 1 == 1);
                let lines = PushLines {
                    per_line: u32::try_from(*per_line).unwrap_or(1),
                    blocked_lines: of(*lines, TARGETS).map(|k| Line::of(target(k + 1).as_ref())).collect(),
                    blocked_topics: of(*topics, TOPICS).map(topic_name).collect(),
                };
                self.both(Request::Lease(LeaseRequest {
                    max: u32::try_from(*max).unwrap_or(1),
                    wait: Duration::from_millis(*wait),
                    auto_ack: *auto_ack,
                    ..LeaseRequest::from(LeaseFrom::Push(lines))
                }))
            }
            Op::LeaseNumber { name } => self.lease_number(*name),
            Op::Settle(items) => self.settle_leases(items),
            Op::Change { .. } | Op::Cancel { .. } => self.change_or_cancel(op),
            Op::Get { name } => self.both(Request::Get(vec![Lookup::Job(job_ref(*name))])),
            Op::Redrive { .. } | Op::Purge { .. } | Op::Pause { .. } | Op::Policy(_) => self.whole_topic(op),
        }
    }

    /// Asks for everything that can be seen.
    pub(super) fn look(&mut self) -> Result<(), Wrong> {
        if self.failed_for.is_some() || self.closing {
            return Ok(());
        }
        self.settle()?;
        if self.stepper.has_failed() {
            return Ok(());
        }
        self.check_disk()?;
        // Where memory is short, what lies between jobs is given back turn by turn.
        for turn in 0..MOVING_TURNS {
            if turn < 2 || self.stepper.weight() > self.memory {
                self.engine_turn()?;
            }
        }
        self.check_memory()?;
        if !self.reads_fail {
            self.stepper.audit().map_err(Wrong)?;
        }
        for topic in (0..TOPICS).map(topic_name) {
            self.both(Request::Topic(topic.clone()))?;
            self.both(Request::List(ListQuery { limit: 1_000, ..ListQuery::of(topic.clone()) }))?;
            let hour = self.start.as_millis() - 3_600_000;
            let from = dwell_core::Timestamp::from_millis(hour).unwrap_or(self.start);
            if let Ok(query) = TimelineQuery::new(Some(topic), from, 60_000, 1_000) {
                self.both(Request::Timeline(query))?;
            }
        }
        let names = (0..TOPICS).flat_map(|topic| (0..IDS).map(move |id| Name { topic, id }));
        self.both(Request::Get(names.map(|name| Lookup::Job(job_ref(name))).collect()))?;
        self.settle()
    }

    /// The journal is a few segments and a few times what is live.
    fn check_disk(&self) -> Result<(), Wrong> {
        let segments = self.disk.files("journal-");
        let live = self.stepper.weight().div_ceil(usize::try_from(SEGMENT).unwrap_or(1));
        let most = 12 + 4 * live;
        if segments <= most {
            return Ok(());
        }
        Err(Wrong(format!("the journal has {segments} segments; {live} are live, so {most} are enough")))
    }

    /// What jobs are reckoned to take is what they take, and not much more than they may.
    fn check_memory(&self) -> Result<(), Wrong> {
        let (weight, (jobs, bytes, more)) = (self.stepper.weight(), self.shadow.model.size());
        // Some kilobytes are there without any job, and remembered ones take some; an open job takes half a kilobyte.
        let most = 2 * bytes + 1_024 * jobs + 128 * more + FIXED;
        // The last put may go beyond; so may leases, which open what was packed.
        let last = usize::try_from(LARGEST_BODY).unwrap_or(0);
        // What is leased, and the next that would be, is in memory however much it is.
        let in_use = if self.cold_tier { self.shadow.model.leased_bytes() + last } else { 0 };
        let beyond = self.memory / 4 + last + in_use + 512 * jobs + 128 * more + FIXED / 2;
        let allowed = self.memory.saturating_add(beyond);
        let too_little = weight < bytes && !self.cold_tier;
        if too_little || (weight > most && weight > self.memory) || weight > allowed {
            return Err(Wrong(format!(
                "{jobs} jobs with {bytes} bytes are reckoned to take {weight} bytes; they may take {}",
                self.memory
            )));
        }
        Ok(())
    }

    fn both(&mut self, request: Request) -> Result<(), Wrong> {
        self.send(request.clone(), request)
    }

    fn new_job(&mut self, put: &Put) -> NewJob {
        let steps: Vec<Delay> = put.ladder.iter().map(|millis| Delay::saturating(*millis)).collect();
        let new = NewJob {
            priority: priority(put.priority),
            options: Options {
                ttr: ttr_of(put.ttr),
                retry: Ladder::new(&steps).ok().map(Ladder::into_policy),
                ttl: Ttl::from_millis(put.ttl).ok(),
                deliver_to: target(put.target),
            },
            headers: Headers::new((0..put.body % 3).map(|k| (format!("h{k}"), put.body.to_string())))
                .unwrap_or_default(),
            body: self.body(put.body),
            if_exists: match put.if_exists {
                0 => IfExists::Replace,
                1 => IfExists::Keep,
                _ => IfExists::Reject,
            },
            force: put.force,
            ..NewJob::new(topic_name(put.name.topic), id(put.name.id), self.when(put.due))
        };
        if !put.fresh {
            return new;
        }
        let fresh = JobId::new(&format!("fresh-{}", self.bodies)).map(NewId::Fresh);
        NewJob { id: fresh.unwrap_or(NewId::FromNumber), ..new }
    }

    fn body(&mut self, bytes: u64) -> Body {
        self.bodies += 1;
        let width = usize::try_from(bytes).unwrap_or(1);
        Body::Bytes(format!("{:0>width$}", self.bodies).into_bytes().into())
    }

    fn when(&self, due: Due) -> When {
        match due {
            Due::In(millis) => When::In(Delay::saturating(millis)),
            Due::At(millis) => When::At(self.start.plus(millis)),
        }
    }

    fn lease_number(&mut self, name: Name) -> Result<(), Wrong> {
        let found = self.shadow.model.get(self.shadow.now, &[Lookup::Job(job_ref(name))]).remove(0);
        let number = found.and_then(dwell_core::Found::live).map(|view| view.job.number);
        let Some((model, store)) = number.and_then(|model| Some((model, self.same.number(model)?))) else {
            return Ok(());
        };
        let ask = |number| Request::Lease(LeaseRequest::from(LeaseFrom::Number(number)));
        self.send(ask(model), ask(store))
    }

    fn settle_leases(&mut self, items: &[(u64, Verb)]) -> Result<(), Wrong> {
        let (mut model, mut store) = (Vec::new(), Vec::new());
        for (n, verb) in items {
            let lease = self.same.leases.iter().rev().nth(usize::try_from(*n).unwrap_or(0)).copied();
            let Some((model_token, store_token)) = lease else { continue };
            // Every other one comes of a push.
            let (at, answer) = (self.start.plus(*n), DeliveryAnswer::new(b"no"));
            let delivery = (n % 2 == 1).then_some(Delivery { at, took: *n, status: Some(503), answer });
            model.push(Settle { delivery: delivery.clone(), ..Settle::new(model_token, verdict(*verb)) });
            store.push(Settle { delivery, ..Settle::new(store_token, verdict(*verb)) });
        }
        if model.is_empty() { Ok(()) } else { self.send(Request::Settle(model), Request::Settle(store)) }
    }

    fn change_or_cancel(&mut self, op: &Op) -> Result<(), Wrong> {
        match op {
            Op::Change { name, due, priority: rank, ttl, body, target: to, if_match, force } => {
                let change = Change {
                    when: due.map(|due| self.when(due)),
                    priority: rank.checked_sub(1).map(priority),
                    body: (*body > 0).then(|| self.body(*body)),
                    ttl: Ttl::from_millis(*ttl).map_or(Edit::Keep, Edit::Set),
                    deliver_to: match to {
                        0 => Edit::Keep,
                        to => target(to - 1).map_or(Edit::Clear, Edit::Set),
                    },
                    ..Change::default()
                };
                let item = |if_match| ChangeItem {
                    force: *force,
                    if_match,
                    ..ChangeItem::new(job_ref(*name), change.clone())
                };
                let (model, store) = self.versions(*name, *if_match);
                self.send(Request::Change(vec![item(model)]), Request::Change(vec![item(store)]))
            }
            Op::Cancel { names, if_match, force } => {
                let item =
                    |name: &Name, if_match| CancelItem { force: *force, if_match, ..CancelItem::new(job_ref(*name)) };
                let model = names.iter().map(|name| item(name, self.versions(*name, *if_match).0)).collect();
                let store = names.iter().map(|name| item(name, self.versions(*name, *if_match).1)).collect();
                self.send(Request::Cancel(model), Request::Cancel(store))
            }
            _ => Ok(()),
        }
    }

    /// The version of a job that was seen last, the model's and the store's.
    fn versions(&self, name: Name, wanted: bool) -> (Option<Version>, Option<Version>) {
        let key = format!("{}/{}", topic_name(name.topic), id(name.id));
        self.same.seen.get(&key).filter(|_| wanted).copied().unzip()
    }

    fn whole_topic(&mut self, op: &Op) -> Result<(), Wrong> {
        let request = match *op {
            Op::Redrive { topic, max, delay, else_delayed } => Request::Redrive(Redrive::Topic(RedriveTopic {
                max: u32::try_from(max).unwrap_or(1),
                delay: Delay::saturating(delay),
                else_delayed,
                ..RedriveTopic::all(topic_name(topic))
            })),
            Op::Purge { topic, state } => {
                let state = usize::try_from(state).ok().and_then(|state| State::ALL.get(state));
                Request::Purge(topic_name(topic), state.map_or(Purge::Topic, |state| Purge::Jobs(*state)))
            }
            Op::Pause { topic, length } => {
                let pause = match length {
                    0 => SetPause::Off,
                    1 => SetPause::On,
                    millis => SetPause::For(Delay::saturating(millis)),
                };
                Request::Pause(topic_name(topic), pause)
            }
            Op::Policy(Policy { topic, max_in_flight, rate, ttl, keep_buried, keep_done, ttr, target: to }) => {
                let given = |millis: u64| (millis > 0).then(|| Delay::saturating(millis));
                let policy = TopicPolicy {
                    max_in_flight: u32::try_from(max_in_flight).ok().and_then(NonZeroU32::new),
                    max_rate: u32::try_from(rate).ok().and_then(|rate| Rate::per_second(f64::from(rate) / 10.0)),
                    deliver_to: target(to),
                    ttl: Ttl::from_millis(ttl).ok(),
                    keep_buried: given(keep_buried),
                    keep_done: given(keep_done),
                    ttr: ttr_of(ttr),
                    ..TopicPolicy::default()
                };
                Request::Policy(topic_name(topic), policy)
            }
            _ => return Ok(()),
        };
        self.both(request)
    }
}

fn verdict(verb: Verb) -> Verdict {
    let delay = |more: u64| more.checked_sub(1).map(Delay::saturating);
    match verb {
        Verb::Ack => Verdict::Ack,
        Verb::Nack(more) => Verdict::Nack { error: None, delay: delay(more) },
        Verb::Release(more) => Verdict::Release { delay: delay(more), priority: None },
        Verb::Bury => Verdict::Bury { reason: None, priority: None },
        Verb::Extend(millis) => Verdict::Extend { ttr: ttr_of(millis) },
    }
}

fn ttr_of(millis: u64) -> Option<Ttr> {
    Ttr::from_millis(millis).ok()
}

fn priority(rank: u64) -> Priority {
    Priority(u32::try_from(rank).unwrap_or(u32::MAX))
}

/// A target; 0 is none.
fn target(k: u64) -> Option<Target> {
    let origin = format!("http://target-{k}.example:80");
    if k == 0 { None } else { Target::new(&format!("{origin}/hook"), &origin).ok() }
}

fn job_ref(name: Name) -> JobRef {
    JobRef::Named(topic_name(name.topic), id(name.id))
}

fn topic_name(topic: u64) -> TopicName {
    TopicName::new(&format!("t{topic}")).expect("a good name")
}

fn id(id: u64) -> JobId {
    JobId::new(&format!("j{id}")).expect("a good id")
}
