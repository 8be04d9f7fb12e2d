//! The cold tier against a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dwell_core::{Body, Job, JobId, Line, NewId, NewJob, Now, Number, Timestamp, TopicName, Version, When};
use proptest::prelude::*;

use super::View;
use super::compactor::{Compactor, Outcome, Task};
use super::flush::Flush;
use super::reader::{Form, ReadRequest, Ready, Reply, Row, RowRequest, Shown, answer};
use crate::clock::Clock;
use crate::disk_space::Reserve;
use crate::engine::IdHash;
use crate::format::key::{Key, Lane, Place, Slice, after_place, first_place};
use crate::format::record::{self, BodyPart, Cause, TopicId};
use crate::format::run::{self, Run};
use crate::format::table;
use crate::storage::told::ToldStorage;
use crate::storage::{MemoryStorage, Storage};

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn wall(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn real(&self) -> Duration {
        Duration::ZERO
    }
}

/// A job by its slice, due time and number.
fn job(slice: Slice, due: u64, number: u64) -> (Key, Vec<u8>) {
    let name = TopicName::new(&format!("topic-{}", slice.topic.0)).unwrap();
    let at = Timestamp::from_millis(due).unwrap();
    let new = NewJob {
        id: NewId::Named(JobId::new(&format!("job-{}", number % 50)).unwrap()),
        body: Body::Bytes(vec![7; usize::try_from(number % 90).unwrap()].into()),
        ..NewJob::new(name, JobId::new("x").unwrap(), When::At(at))
    };
    let number = Number::new(number).unwrap();
    let version = Version::new(number.get()).unwrap();
    let now = Now { at: Timestamp::EPOCH, up: Timestamp::EPOCH };
    let job = Job::create(new, number, version, now, 0).unwrap();
    let mut bytes = Vec::new();
    record::encode_job(&mut bytes, slice.topic, Cause::Put, &job, BodyPart::Here);
    (Key::new(slice, (at, number)), bytes)
}

fn slice(topic: u32, line: u16, lane: usize) -> Slice {
    Slice { topic: TopicId(topic), line: Line::from_index(line).unwrap(), lane: Lane::own(lane) }
}

fn any_slice() -> impl Strategy<Value = Slice> {
    (1..4_u32, 0..2_u16, 0..3_usize).prop_map(|(topic, line, lane)| slice(topic, line, lane))
}

#[derive(Clone, Debug)]
enum Step {
    /// Flush so many more jobs, with these due times.
    Flush(Vec<(Slice, u64)>, Vec<prop::sample::Index>),
    /// Let the compactor's thread work.
    Work(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let jobs = prop::collection::vec((any_slice(), 1..60_u64), 0..40);
    let tombstones = prop::collection::vec(any::<prop::sample::Index>(), 0..20);
    prop_oneof![3 => (jobs, tombstones).prop_map(|(jobs, tombstones)| Step::Flush(jobs, tombstones)), 1 => (0..6_usize).prop_map(Step::Work)]
}

/// How ids of jobs that are taken apart are hashed.
static HASH: LazyLock<IdHash> = LazyLock::new(IdHash::default);

/// Jobs due by then are taken apart.
fn ready_at() -> Timestamp {
    Timestamp::from_millis(20).unwrap()
}

fn rows(view: &View, slices: Vec<Slice>, from: Place, until: Timestamp, limit: usize) -> Row {
    let ready = Some(Ready { topic: TopicName::new("t").unwrap(), at: ready_at(), hash: HASH.clone() });
    let question = ReadRequest::Row(RowRequest { slices, from, until, limit, bytes: usize::MAX, ready });
    let answered = answer(view, &question);
    assert!(answered.bad.is_empty() && answered.failed.is_none());
    match answered.reply {
        Reply::Row(row) => row,
        other => panic!("{other:?}"),
    }
}

fn places(row: &Row) -> Vec<Place> {
    row.jobs.iter().map(|job| job.meta.place()).collect()
}

fn record(job: &Shown) -> &[u8] {
    let Form::Record(record, _) = &job.form else { panic!("{job:?} is taken apart") };
    record
}

/// Whether a job of a row is the one that is there, taken apart if it is ready.
fn check_form(job: &Shown, all: &BTreeMap<Key, Vec<u8>>) {
    let (_, kept) = all.iter().find(|(key, _)| key.number == job.meta.number).unwrap();
    match &job.form {
        Form::Open(open, hash) => {
            assert!(open.due_at <= ready_at());
            assert_eq!((*hash, job.id_hash()), (HASH.of(job.topic, open.id.as_str().as_bytes()), Some(*hash)));
            assert_eq!(**open, record::decode_seen(kept, &TopicName::new("t").unwrap()));
        }
        Form::Record(record, _) => {
            assert!(job.meta.place().0 > ready_at());
            assert_eq!(record, kept);
        }
    }
}

/// Asks for everything there is to ask for.
fn check(view: &View, all: &BTreeMap<Key, Vec<u8>>) {
    for topic in 1..4 {
        for line in 0..2 {
            let slices: Vec<Slice> = (0..3).map(|lane| slice(topic, line, lane)).collect();
            let mut expected: Vec<Place> =
                all.keys().filter(|key| slices.contains(&key.slice)).map(Key::place).collect();
            expected.sort_unstable();
            // In pages of three, as far as a time in the middle.
            let until = Timestamp::from_millis(40).unwrap();
            let (mut found, mut from) = (Vec::new(), first_place());
            loop {
                let row = rows(view, slices.clone(), from, until, 3);
                found.extend(places(&row));
                row.jobs.iter().for_each(|job| check_form(job, all));
                let beyond = expected.iter().find(|place| place.0 > until || !found.contains(place));
                assert_eq!(row.next, beyond.map(|place| place.0));
                match row.through {
                    Some(through) => from = after_place(through),
                    None => break,
                }
            }
            let due: Vec<Place> = expected.iter().copied().filter(|place| place.0 <= until).collect();
            assert_eq!(found, due);
            for slice in slices {
                let Reply::Ranks(ranks) = answer(view, &ReadRequest::Ranks(vec![(slice, until)])).reply else {
                    panic!()
                };
                let due = all.keys().filter(|key| key.slice == slice && key.due_at <= until).count() as u64;
                assert_eq!(ranks, [due]);
            }
        }
    }
    for (key, record) in all {
        let id = JobId::new(str::from_utf8(record::id_of(record)).unwrap()).unwrap();
        let find = ReadRequest::Find { ids: vec![(key.slice.topic, id)], numbers: Vec::new() };
        let Reply::Found(found) = answer(view, &find).reply else { panic!() };
        assert!(found.iter().any(|job| self::record(job) == *record));
        let find = ReadRequest::Find { ids: Vec::new(), numbers: vec![key.number] };
        let Reply::Found(found) = answer(view, &find).reply else { panic!() };
        assert_eq!(found.iter().map(self::record).collect::<Vec<_>>(), [record]);
    }
}

#[test]
fn a_fold_that_finds_no_room_leaves_nothing_and_is_done_later() {
    let disk = Arc::new(ToldStorage::default());
    disk.free.store(1 << 30, Ordering::SeqCst);
    let storage = Arc::clone(&disk) as Arc<dyn Storage>;
    let reserve = Reserve::open(Arc::clone(&storage), 1_000, 1_000);
    let mut compactor = Compactor::new(storage, Arc::new(Still), reserve, View::default(), 300, 2_000);
    let mut flush = |numbers: std::ops::Range<u64>, tombstones: &[u64]| {
        let mut flush = Flush::default();
        for number in numbers {
            let (key, record) = job(slice(1, 0, 0), number, number);
            let begin = flush.records.len();
            flush.records.extend_from_slice(&record);
            flush.jobs.push((key, begin..flush.records.len()));
        }
        flush
            .tombstones
            .extend(tombstones.iter().map(|&dead| (Number::new(dead).unwrap(), Version::new(dead).unwrap())));
        compactor.take(Task::Flush(Box::new(flush)));
        compactor.turn()
    };
    assert!(matches!(flush(1..10, &[]), Some(Outcome::Flushed { .. })));
    let names =
        || disk.list().unwrap().into_iter().filter(|name| name != crate::disk_space::RESERVE_NAME).collect::<Vec<_>>();
    let there = names();
    disk.refuses_dead.store(true, Ordering::SeqCst);
    assert!(matches!(flush(10..20, &[3, 4]), Some(Outcome::FlushFailed(_))));
    assert_eq!(names(), there);
    disk.refuses_dead.store(false, Ordering::SeqCst);
    let Some(Outcome::Flushed { view, .. }) = flush(10..20, &[3, 4]) else { panic!("there is room") };
    assert_eq!(view.runs.iter().map(super::LiveRun::live).sum::<u64>(), 9 - 2 + 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn it_has_what_was_put_there_and_did_not_die(steps in prop::collection::vec(step(), 1..14)) {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let reserve = Reserve::open(Arc::clone(&storage), 1_000, 1_000);
        let mut compactor = Compactor::new(Arc::clone(&storage), Arc::new(Still), reserve, View::default(), 300, 2_000);
        let (mut all, mut view, mut number) = (BTreeMap::new(), View::default(), 0);
        for step in steps {
            match step {
                Step::Flush(jobs, tombstones) => {
                    let mut flush = Flush::default();
                    for death in tombstones.iter().take(all.len()) {
                        let key: Key = *all.keys().nth(death.index(all.len())).unwrap();
                        all.remove(&key);
                        flush.tombstones.push((key.number, Version::new(key.number.get()).unwrap()));
                        // A copy that never was does no harm.
                        flush.tombstones.push((key.number, Version::new(key.number.get() + 1_000_000).unwrap()));
                    }
                    for (slice, due) in jobs {
                        number += 1;
                        let (key, record) = job(slice, due, number);
                        let begin = flush.records.len();
                        flush.records.extend_from_slice(&record);
                        flush.jobs.push((key, begin..flush.records.len()));
                        all.insert(key, record);
                    }
                    compactor.take(Task::Flush(Box::new(flush)));
                    match compactor.turn() {
                        Some(Outcome::Flushed { view: flushed, .. }) => view = flushed,
                        _ => panic!("a flush that can be written is"),
                    }
                }
                Step::Work(turns) => {
                    for _ in 0..turns {
                        if let Some(Outcome::Merged { view: merged, .. }) = compactor.turn() {
                            view = merged;
                        }
                    }
                }
            }
            check(&view, &all);
            // What is on disk is the same.
            let reopened = view.runs.iter().map(|live_run| {
                let run = Run::open(&*storage, live_run.run.number).unwrap();
                super::LiveRun { run: Arc::new(run), ..live_run.clone() }
            });
            check(&View { runs: reopened.collect() }, &all);
        }
    }
}

/// Whatever bit of a run is flipped: it does not open, or says what is bad, or nobody ever sees the difference.
#[test]
fn a_flipped_bit_gives_no_wrong_job() {
    let storage = MemoryStorage::new();
    let mut flush = Flush::default();
    let mut all = BTreeMap::new();
    for number in 1..30 {
        let (key, record) = job(slice(1, 0, 0), number % 7, number);
        let begin = flush.records.len();
        flush.records.extend_from_slice(&record);
        flush.jobs.push((key, begin..flush.records.len()));
        all.insert(key, record);
    }
    let run = flush.write(&storage, 1, 400).unwrap().unwrap();
    let length = usize::try_from(run.bytes).unwrap();
    let mut whole = vec![0; length];
    storage.open(&run::name(1)).unwrap().read_at(0, &mut whole).unwrap();
    let mut outcomes = [0; 3];
    for at in 0..length {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        let image = MemoryStorage::new();
        image.create(&run::name(1)).unwrap().write_at(0, &flipped).unwrap();
        let Ok(run) = Run::open(&image, 1) else {
            outcomes[0] += 1;
            continue;
        };
        let live_run = super::LiveRun { run: Arc::new(run), dead: Arc::default(), stamp: None };
        let view = View { runs: vec![live_run] };
        let question = RowRequest {
            slices: vec![slice(1, 0, 0)],
            from: first_place(),
            until: Timestamp::MAX,
            limit: usize::MAX,
            bytes: usize::MAX,
            ready: None,
        };
        let row = answer(&view, &ReadRequest::Row(question));
        let numbers = all.keys().map(|key| key.number).collect();
        let found = answer(&view, &ReadRequest::Find { ids: Vec::new(), numbers });
        let (Reply::Row(in_order), Reply::Found(by_number)) = (row.reply, found.reply) else { panic!() };
        for job in in_order.jobs.iter().chain(&by_number) {
            assert!(all.values().any(|of| *of == record(job)), "byte {at} made another job");
        }
        if row.bad.is_empty() && found.bad.is_empty() {
            assert_eq!((in_order.jobs.len(), by_number.len()), (all.len(), all.len()), "byte {at} lost one in silence");
            outcomes[2] += 1;
        } else {
            outcomes[1] += 1;
        }
    }
    // Nobody asked for an id: what is wrong with the one page of their table is not noticed.
    assert_eq!(outcomes[2], table::PAGE, "{outcomes:?}");
    assert!(outcomes[0] > 300 && outcomes[1] > 2_000, "{outcomes:?}");
}
