//! Handing out.
//!
//! A lease of one topic is one call, also for several who ask at a time. Over several topics, or for a courier, the heads
//! are looked at first, and what is best is then leased topic by topic: each lease chooses again, so what was seen is only
//! how many to ask each for.

use std::collections::BTreeMap;
use std::sync::Arc;

use dwell_core::state::{self, Command, Grant};
use dwell_core::{
    JobView, LeaseFrom, LeaseRequest, LeasedJob, Line, Number, Phase, PushLines, Settle, StoreError, Timestamp,
    TopicName, Ttr, Verdict, limits,
};
use futures_util::future::try_join_all;

use crate::inner::{Act, CALL_BYTES, CALL_JOBS, Inner, Looked, Place};
use crate::record::{self, Reader, Writer};
use crate::reply::Reply;
use crate::script;

/// What one look for jobs came to.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) jobs: Vec<LeasedJob>,
    /// With no jobs: from when on there may be some, as far as is known.
    pub(crate) next: Option<Timestamp>,
}

impl Attempt {
    fn sooner(&mut self, next: Option<Timestamp>) {
        self.next = match (self.next, next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// A ready job at the head of its queue.
struct Head {
    queue: (TopicName, Line),
    order: (u64, Timestamp, Number),
    length: usize,
}

/// One who asks.
struct Ask<'a> {
    jobs: usize,
    request: &'a LeaseRequest,
}

/// What one call of a lease gave.
struct Given {
    /// Nothing, because time has done things that must be seen to first.
    late: bool,
    /// From when on there may be more, as far as is known.
    next: Option<Timestamp>,
    /// A job did not fit the call.
    more: bool,
    /// For whom of those who asked, and what.
    jobs: Vec<(usize, JobView)>,
}

/// How much one call of a lease may take.
struct Share<'a> {
    asks: &'a [Ask<'a>],
    /// What is left of the answer.
    bytes: usize,
    /// Nothing has been taken yet: one job fits anyway.
    first: bool,
    /// Whether or not time has done things that nobody has seen to.
    anyway: bool,
}

impl Inner {
    /// Looks for jobs once, without waiting.
    pub(crate) async fn attempt(self: &Arc<Self>, request: &LeaseRequest) -> Result<Attempt, StoreError> {
        match &request.from {
            LeaseFrom::Number(number) => self.lease_number(*number, request).await,
            LeaseFrom::Pull(topics) => match &topics[..] {
                [topic] => {
                    self.lease_queue(topic, Line::PULL, request, request.max as usize, limits::MAX_ANSWER_BYTES).await
                }
                topics => self.lease_best(request, Some(topics)).await,
            },
            LeaseFrom::Push(_) => self.lease_best(request, None).await,
        }
    }

    /// Leases from one queue, call by call until there is enough or no more.
    async fn lease_queue(
        &self,
        topic: &TopicName,
        line: Line,
        request: &LeaseRequest,
        most: usize,
        bytes: usize,
    ) -> Result<Attempt, StoreError> {
        let mut attempt = Attempt::default();
        self.lease_more(topic, line, request, most, bytes, &mut attempt).await?;
        Ok(attempt)
    }

    /// Adds to what a look has found, until there is enough or no more; `left` is what is left of the answer.
    async fn lease_more(
        &self,
        topic: &TopicName,
        line: Line,
        request: &LeaseRequest,
        most: usize,
        mut left: usize,
        attempt: &mut Attempt,
    ) -> Result<(), StoreError> {
        let mut anyway = false;
        while attempt.jobs.len() < most {
            let jobs = (most - attempt.jobs.len()).min(CALL_JOBS);
            let asks = [Ask { jobs, request }];
            let share = Share { asks: &asks, bytes: left, first: attempt.jobs.is_empty(), anyway };
            let given = self.lease_call(topic, line, &share).await?;
            if given.late {
                anyway |= !self.pass_topic(topic, 1).await?;
                continue;
            }
            if given.jobs.is_empty() {
                attempt.sooner(given.next);
                break;
            }
            let got = given.jobs.len();
            for (_, view) in given.jobs {
                left = left.saturating_sub(view.job.body.len());
                attempt.jobs.push(hand_over(view, request.auto_ack));
            }
            if got < jobs && !given.more {
                break;
            }
        }
        Ok(())
    }

    /// Leases for several who ask for one topic, in their order, by one call but for what does not fit it. Each gets
    /// what it would get if they asked one after the other. Also from when on there may be more, if that is known.
    pub(crate) async fn lease_together(
        &self,
        topic: &TopicName,
        requests: &[Arc<LeaseRequest>],
    ) -> Result<(Vec<Attempt>, Option<Timestamp>), StoreError> {
        let asks: Vec<Ask<'_>> = requests.iter().map(|request| Ask { jobs: request.max as usize, request }).collect();
        let mut attempts: Vec<Attempt> = requests.iter().map(|_| Attempt::default()).collect();
        let mut anyway = false;
        let given = loop {
            let share = Share { asks: &asks, bytes: limits::MAX_ANSWER_BYTES, first: true, anyway };
            let given = self.lease_call(topic, Line::PULL, &share).await?;
            if !given.late {
                break given;
            }
            anyway |= !self.pass_topic(topic, 1).await?;
        };
        let (mut last, mut bytes) = (0, 0);
        for (whom, view) in given.jobs {
            bytes = view.job.body.len() + if whom == last { bytes } else { 0 };
            last = whom;
            attempts[whom].jobs.push(hand_over(view, requests[whom].auto_ack));
        }
        if given.more {
            let (request, left) = (&requests[last], limits::MAX_ANSWER_BYTES.saturating_sub(bytes));
            let most = request.max as usize;
            let added = self.lease_more(topic, Line::PULL, request, most, left, &mut attempts[last]).await;
            if let Err(error) = added {
                // What it has is good.
                tracing::debug!(%error, "a lease got fewer jobs than there are");
            }
        }
        Ok((attempts, given.next))
    }

    async fn lease_call(&self, topic: &TopicName, line: Line, share: &Share<'_>) -> Result<Given, StoreError> {
        let jobs: usize = share.asks.iter().map(|ask| ask.jobs).sum();
        let secrets: Vec<u8> = (0..jobs.min(CALL_JOBS)).flat_map(|_| self.dice.roll().to_be_bytes()).collect();
        let request = share.asks[0].request;
        let flags = [matches!(request.from, LeaseFrom::Push(_)), request.auto_ack, share.anyway, share.first];
        let flags = (0..).zip(flags).map(|(bit, flag)| u64::from(flag) << bit).sum();
        let mut asked = Writer::default();
        asked.uint(line.index().into(), 2).uint(flags, 1).uint(self.defaults.ttr.as_millis(), 4);
        asked.uint(CALL_BYTES as u64, 4).uint(share.bytes as u64, 4);
        for Ask { jobs, request } in share.asks {
            asked.uint(*jobs as u64, 4).uint(request.ttr.map_or(0, Ttr::as_millis), 4);
            asked.short(request.consumer.as_ref().map_or(&[], |consumer| consumer.as_str().as_bytes()));
        }
        let call = self.call(&script::LEASE, self.keys.of_topic(topic)).flag(false).arg(topic.as_str());
        let call = call.arg(self.dice.roll().to_be_bytes()).arg(secrets).arg(asked.into_bytes());
        let reply = crate::reply::bytes(self.run(call).await?)?;
        let given = self.read_given(&reply, share.asks.len())?;
        for (_, view) in &given.jobs {
            self.counted(view.job.version.get());
        }
        Ok(given)
    }

    fn read_given(&self, reply: &[u8], asks: usize) -> Result<Given, StoreError> {
        let mut reply = Reader::new(reply, "answer");
        let now = reply.time()?;
        self.saw(now);
        let late = reply.u8()? == 1;
        let next = Some(reply.time()?).filter(|next| *next > Timestamp::EPOCH);
        let (more, policy) = (reply.u8()? == 1, reply.sized(4)?);
        let mut jobs = Vec::new();
        if reply.end().is_err() {
            let policy = record::read_policy(policy)?;
            let rules = self.rules(&policy);
            while reply.end().is_err() {
                let whom = usize::from(reply.u8()?).checked_sub(1).filter(|whom| *whom < asks);
                let whom = whom.ok_or(reply.wrong())?;
                let (number, [blob, state, body]) = (reply.number()?, reply.lengths()?);
                let (blob, state, body) = (reply.raw(blob)?, reply.raw(state)?, reply.raw(body)?);
                let job = record::read_job(number, blob, state, Some(body))?;
                jobs.push((whom, JobView::new(job, now, &rules)));
            }
        }
        Ok(Given { late, next, more, jobs })
    }

    /// Leases the best heads of several queues.
    async fn lease_best(&self, request: &LeaseRequest, topics: Option<&[TopicName]>) -> Result<Attempt, StoreError> {
        let mut attempt = Attempt::default();
        let mut given: BTreeMap<(TopicName, Line), usize> = BTreeMap::new();
        let mut bytes = 0;
        while attempt.jobs.len() < request.max as usize {
            let most = request.max as usize - attempt.jobs.len();
            let (mut heads, next) = self.peek(request, topics, most).await?;
            heads.sort_by_key(|head| head.order);
            let mut wanted: BTreeMap<(TopicName, Line), (usize, usize)> = BTreeMap::new();
            let (mut chosen, mut room) = (0, limits::MAX_ANSWER_BYTES.saturating_sub(bytes));
            let mut full = false;
            for head in heads {
                if let LeaseFrom::Push(lines) = &request.from {
                    let share = given.get(&head.queue).copied().unwrap_or(0);
                    let share = share + wanted.get(&head.queue).map_or(0, |(jobs, _)| *jobs);
                    if share >= lines.per_line.max(1) as usize {
                        continue;
                    }
                }
                let first = attempt.jobs.is_empty() && chosen == 0;
                if chosen == most || (head.length > room && !first) {
                    full = true;
                    break;
                }
                room = room.saturating_sub(head.length);
                chosen += 1;
                let queue = wanted.entry(head.queue).or_default();
                *queue = (queue.0 + 1, queue.1 + head.length);
            }
            if wanted.is_empty() {
                attempt.sooner(next);
                break;
            }
            let leases = wanted
                .iter()
                .map(|((topic, line), (jobs, length))| self.lease_queue(topic, *line, request, *jobs, *length));
            let mut jobs: Vec<LeasedJob> = try_join_all(leases).await?.into_iter().flat_map(|got| got.jobs).collect();
            if jobs.is_empty() {
                // All of them went to somebody else.
                continue;
            }
            jobs.sort_by_key(|job| job.view.job.order());
            for job in &jobs {
                bytes += job.view.job.body.len();
                *given.entry((job.view.job.topic.clone(), job.view.job.line())).or_default() += 1;
            }
            attempt.jobs.extend(jobs);
            if full {
                break;
            }
        }
        Ok(attempt)
    }

    /// The heads of the queues a request is for, and from when on there may be more.
    async fn peek(
        &self,
        request: &LeaseRequest,
        topics: Option<&[TopicName]>,
        most: usize,
    ) -> Result<(Vec<Head>, Option<Timestamp>), StoreError> {
        let mut partitions: BTreeMap<usize, Vec<TopicName>> = BTreeMap::new();
        let lines = match &request.from {
            LeaseFrom::Push(lines) => lines.clone(),
            LeaseFrom::Pull(_) | LeaseFrom::Number(_) => PushLines::default(),
        };
        if topics.is_none() {
            partitions = (0..self.keys.partitions()).map(|partition| (partition, Vec::new())).collect();
        }
        for topic in topics.unwrap_or(&lines.blocked_topics) {
            let named = partitions.entry(self.keys.of_topic(topic)).or_default();
            if !named.contains(topic) {
                named.push(topic.clone());
            }
        }
        let courier = topics.is_none();
        let most = if courier { most.min(lines.per_line.max(1) as usize) } else { most };
        let looks = partitions.into_iter().map(|(partition, topics)| {
            self.peek_in(partition, topics, courier.then_some(&lines), most, request.auto_ack)
        });
        let mut all = Attempt::default();
        let mut heads = Vec::new();
        for (found, next) in try_join_all(looks).await? {
            heads.extend(found);
            all.sooner(next);
        }
        Ok((heads, all.next))
    }

    async fn peek_in(
        &self,
        partition: usize,
        topics: Vec<TopicName>,
        courier: Option<&PushLines>,
        most: usize,
        acks: bool,
    ) -> Result<(Vec<Head>, Option<Timestamp>), StoreError> {
        let mut anyway = false;
        loop {
            let call = self.call(&script::PEEK, partition).flag(courier.is_some());
            let mut call = call.int(most.min(CALL_JOBS) as u64).flag(anyway).int(topics.len() as u64).flag(acks);
            for topic in &topics {
                call.push(topic.as_str());
            }
            for line in courier.map_or(&[][..], |lines| &lines.blocked_lines) {
                call.push(line.index().to_string());
            }
            let mut reply = self.ask(call).await?;
            self.saw(reply.time()?);
            let late = super::topics::read_names(reply.value()?)?;
            if late.is_empty() || anyway {
                let next = reply.maybe_time()?;
                let heads = reply.rows()?.into_iter().map(read_head).collect::<Result<_, _>>()?;
                return Ok((heads, next));
            }
            for topic in late {
                anyway |= !self.pass_topic(&topic, 1).await?;
            }
        }
    }

    /// Leases one job, whatever its state.
    async fn lease_number(self: &Arc<Self>, number: Number, request: &LeaseRequest) -> Result<Attempt, StoreError> {
        let partition = self.keys.of_number(number);
        let mut leased = false;
        let mut decide = |_: usize, looked: &mut Looked, now: dwell_core::Now| {
            leased = false;
            let Looked::Live(live) = looked else { return (Act::Leave, Vec::new()) };
            let policy = Arc::clone(&live.policy);
            let rules = self.rules(&policy);
            let past_ttl = rules.expires_at(&live.job).is_some_and(|at| at <= now.at);
            let grant = Grant {
                ttr: request.ttr,
                secret: self.dice.roll(),
                consumer: request.consumer.clone(),
                by_number: true,
            };
            if past_ttl || state::apply(&mut live.job, Command::Lease(grant), &self.moment(now, &policy)).is_err() {
                return (Act::Leave, Vec::new());
            }
            leased = true;
            (Act::Set { blob: false }, vec![("leased", 1)])
        };
        let looked = self.update(partition, vec![(0, Place::Number(number))], true, &mut decide).await?.pop();
        let Some((_, Looked::Live(live), now)) = looked.filter(|_| leased) else { return Ok(Attempt::default()) };
        let job = hand_over(self.view(*live, now.at), false);
        let Some(token) = job.token.filter(|_| request.auto_ack) else {
            return Ok(Attempt { jobs: vec![job], next: None });
        };
        let acked = self.settle(vec![Settle::new(token, Verdict::Ack)]).await?;
        let jobs = if acked == [Ok(())] { vec![LeasedJob { token: None, ..job }] } else { Vec::new() };
        Ok(Attempt { jobs, next: None })
    }

    /// Takes back jobs whose receiver has gone away.
    pub(crate) async fn give_back(self: &Arc<Self>, jobs: Vec<LeasedJob>) {
        let release = Verdict::Release { delay: None, priority: None };
        let tokens = jobs.into_iter().filter_map(|job| job.token);
        let items: Vec<Settle> = tokens.map(|token| Settle::new(token, release.clone())).collect();
        if !items.is_empty()
            && let Err(error) = self.settle(items).await
        {
            tracing::warn!(%error, "leases that nobody received could not be given back; they run out");
        }
    }
}

fn hand_over(view: JobView, acked: bool) -> LeasedJob {
    let token = match &view.job.phase {
        Phase::Leased(lease) if !acked => Some(lease.token),
        Phase::Leased(_) | Phase::Waiting | Phase::Buried(_) => None,
    };
    LeasedJob { view, token }
}

fn read_head(mut row: Reply) -> Result<Head, StoreError> {
    let topic = row.text()?;
    let topic = TopicName::new(&topic).map_err(|_| record::Unreadable("topic name"))?;
    let line = u16::try_from(row.int()?).ok().and_then(Line::from_index).ok_or(record::Unreadable("line"))?;
    let (priority, due_at, number) = (row.count()?, row.time()?, row.number()?);
    let length = usize::try_from(row.count()?).unwrap_or(usize::MAX);
    Ok(Head { queue: (topic, line), order: (priority, due_at, number), length })
}
