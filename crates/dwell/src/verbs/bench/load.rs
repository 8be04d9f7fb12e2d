//! Producers by a schedule, and consumers that keep up with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dwell_wire::Duration;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

use super::Door;
use super::record::Record;
use crate::exit::Exit;
use crate::output::Progress;

/// How long after the end what is overdue is still sent, and consumers still wait for what was put.
const GRACE: time::Duration = time::Duration::from_secs(5);

/// How long to rest after a failure, where no schedule does it.
const REST: time::Duration = time::Duration::from_millis(10);

/// How often progress is shown.
const SHOWN: time::Duration = time::Duration::from_millis(200);

/// What is to be done.
pub(super) struct Plan {
    pub(super) topic: String,
    pub(super) door: Door,
    /// Seconds from one request to the next; without: as soon as there is an answer.
    pub(super) interval: Option<f64>,
    pub(super) warm_up: time::Duration,
    pub(super) length: time::Duration,
    /// Jobs of one request.
    pub(super) batch: u32,
    pub(super) producers: u32,
    pub(super) consumers: u32,
    pub(super) body_size: usize,
    pub(super) delay: Duration,
    pub(super) measures_lateness: bool,
}

/// A job as a consumer got it.
pub(super) struct Taken {
    pub(super) body: String,
    /// In microseconds, where the protocol tells when it was due.
    pub(super) lateness: Option<u64>,
}

/// What all tasks know.
struct Shared {
    plan: Arc<Plan>,
    start: Instant,
    /// The next request of the schedule.
    next: AtomicU64,
    /// Jobs put, and jobs that consumers had.
    put: AtomicU64,
    taken: AtomicU64,
    producers_done: AtomicBool,
}

/// Does all of it.
pub(super) async fn run(plan: &Arc<Plan>) -> Result<Record, Exit> {
    let shared = Arc::new(Shared {
        plan: Arc::clone(plan),
        start: Instant::now(),
        next: AtomicU64::new(0),
        put: AtomicU64::new(0),
        taken: AtomicU64::new(0),
        producers_done: AtomicBool::new(false),
    });
    let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
    (0..plan.consumers).for_each(|_| drop(consumers.spawn(consume(Arc::clone(&shared)))));
    (0..plan.producers).for_each(|_| drop(producers.spawn(produce(Arc::clone(&shared)))));
    let mut all = Record::new();
    let progress = shared.progress();
    let mut shown = time::interval(SHOWN);
    loop {
        let ended = tokio::select! {
            Some(ended) = producers.join_next() => ended,
            Some(ended) = consumers.join_next() => ended,
            _ = shown.tick() => {
                progress.at(shared.seconds(), format!("{} jobs", shared.put.load(Ordering::Relaxed)));
                continue;
            }
            else => break,
        };
        all.add(&ended.map_err(|error| Exit::failure(format!("a task of the bench ended: {error}")))?);
        if producers.is_empty() {
            shared.producers_done.store(true, Ordering::Release);
        }
        if producers.is_empty() && consumers.is_empty() {
            break;
        }
    }
    let taken = shared.taken.load(Ordering::Acquire);
    if plan.consumers > 0 {
        all.not_taken = shared.put.load(Ordering::Acquire).saturating_sub(taken);
    }
    all.errors = all.errors.map(|first| format!("{} requests failed; the first: {first}", all.failed));
    Ok(all)
}

impl Shared {
    fn end(&self) -> Instant {
        self.start + self.plan.warm_up + self.plan.length
    }

    /// Microseconds from the start.
    fn micros(&self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.start))
    }

    /// Whether what was meant for that moment is measured.
    fn counts(&self, meant: u64) -> bool {
        meant >= micros(self.plan.warm_up)
    }

    fn seconds(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    fn progress(&self) -> Progress {
        let whole = self.plan.warm_up + self.plan.length;
        Progress::of(whole.as_secs().max(1), "s")
    }

    /// When the next request is meant to leave; `None` if that is past the end.
    fn next(&self) -> Option<Instant> {
        let Some(interval) = self.plan.interval else {
            let now = Instant::now();
            return (now < self.end()).then_some(now);
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "there are fewer requests than 2^52")]
        let at = self.start + time::Duration::from_secs_f64(number as f64 * interval);
        (at < self.end()).then_some(at)
    }

    /// A body that says when its put was meant to leave and when it left.
    fn body(&self, meant: Instant, sent: Instant) -> String {
        let stamps = format!("{:016}{:016}", self.micros(meant), self.micros(sent));
        format!("{stamps:x<width$}", width = self.plan.body_size.saturating_sub(2))
    }

    fn jobs(&self) -> u64 {
        u64::from(self.plan.batch)
    }
}

/// When a body says that its put was meant to leave, and when it left.
fn stamps(body: &str) -> Option<(u64, u64)> {
    Some((body.get(..16)?.parse().ok()?, body.get(16..32)?.parse().ok()?))
}

fn micros(length: time::Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// What one producer or consumer sends by.
enum Link<'a> {
    Http(&'a super::http::Door),
    Beanstalk(super::beanstalk::Connection),
}

impl<'a> Link<'a> {
    async fn open(plan: &'a Plan) -> Result<Self, String> {
        Ok(match &plan.door {
            Door::Http(door) => Self::Http(door),
            Door::Beanstalk(door) => Self::Beanstalk(door.connection(&plan.topic).await?),
        })
    }
}

async fn produce(shared: Arc<Shared>) -> Record {
    let (plan, mut record) = (&*shared.plan, Record::new());
    let mut link = None;
    let last = shared.end() + GRACE;
    while let Some(meant) = shared.next() {
        time::sleep_until(meant).await;
        let sent = Instant::now();
        let counts = shared.counts(shared.micros(meant));
        if sent > last {
            // The server did not keep up. It would be far too good to it to forget what it never got.
            if counts {
                record.never_sent += 1;
                record.put.saturating_record_n(micros(last - meant), shared.jobs());
            }
            continue;
        }
        match put(&shared, &mut link, &shared.body(meant, sent)).await {
            Ok(()) => {
                shared.put.fetch_add(shared.jobs(), Ordering::AcqRel);
                if counts {
                    record.put.saturating_record_n(micros(meant.elapsed()), shared.jobs());
                    record.put_service.saturating_record_n(micros(sent.elapsed()), shared.jobs());
                }
            }
            Err(error) => {
                record.fail(error);
                link = None;
                time::sleep(if plan.interval.is_none() { REST } else { time::Duration::ZERO }).await;
            }
        }
    }
    record
}

async fn put<'a>(shared: &'a Shared, link: &mut Option<Link<'a>>, body: &str) -> Result<(), String> {
    let open = match link.take() {
        Some(open) => open,
        None => Link::open(&shared.plan).await?,
    };
    match link.insert(open) {
        Link::Http(door) => door.put(&shared.plan, body).await,
        Link::Beanstalk(connection) => connection.put(&shared.plan, body).await,
    }
}

async fn consume(shared: Arc<Shared>) -> Record {
    let (plan, mut record) = (&*shared.plan, Record::new());
    let last = shared.end() + time::Duration::from_millis(plan.delay.0) + GRACE;
    let mut link = None;
    loop {
        let done = shared.producers_done.load(Ordering::Acquire)
            && shared.taken.load(Ordering::Acquire) >= shared.put.load(Ordering::Acquire);
        if done || Instant::now() > last {
            return record;
        }
        if let Err(error) = consume_once(&shared, &mut link, &mut record).await {
            record.fail(error);
            link = None;
            time::sleep(REST).await;
        }
    }
}

async fn consume_once<'a>(shared: &'a Shared, link: &mut Option<Link<'a>>, record: &mut Record) -> Result<(), String> {
    let open = match link.take() {
        Some(open) => open,
        None => Link::open(&shared.plan).await?,
    };
    let (count, first, asked_at) = match link.insert(open) {
        Link::Http(door) => {
            let (jobs, taken) = door.take(&shared.plan).await?;
            if jobs.is_empty() {
                return Ok(());
            }
            for taken in &taken {
                had(shared, taken, record);
            }
            let asked_at = Instant::now();
            door.ack(&jobs).await?;
            (taken.len(), taken.into_iter().next(), asked_at)
        }
        Link::Beanstalk(connection) => {
            let Some((id, taken)) = connection.take().await? else { return Ok(()) };
            had(shared, &taken, record);
            let asked_at = Instant::now();
            connection.delete(id).await?;
            (1, Some(taken), asked_at)
        }
    };
    let meant = first.and_then(|taken| stamps(&taken.body)).map_or(0, |(meant, _)| meant);
    let count = u64::try_from(count).unwrap_or(0);
    if shared.counts(meant) {
        record.ack.saturating_record_n(micros(asked_at.elapsed()), count);
    }
    shared.taken.fetch_add(count, Ordering::AcqRel);
    Ok(())
}

/// A consumer has a job.
fn had(shared: &Shared, taken: &Taken, record: &mut Record) {
    let Some((meant, sent)) = stamps(&taken.body) else {
        record.fail("a job came back with another body".to_owned());
        return;
    };
    if !shared.counts(meant) {
        return;
    }
    let now = shared.micros(Instant::now());
    if shared.plan.measures_lateness {
        // Over beanstalk the delay counts from when the put left: the way to the server is part of the lateness.
        let due = sent.saturating_add(shared.plan.delay.0.saturating_mul(1_000));
        record.lateness.saturating_record(taken.lateness.unwrap_or(now.saturating_sub(due)));
    } else {
        record.handed_over.saturating_record(now.saturating_sub(meant));
    }
}
