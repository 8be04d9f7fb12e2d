//! Files that are not as they were written: bits flipped, pages blank, files cut short, swapped or missing. A start is
//! loud or right, and a repair keeps everything that can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use dwell_core::{
    Body, CancelItem, Delay, Found, JobId, JobRef, LeaseRequest, Lookup, NewJob, Settle, Store, StoreError, Verdict,
    When,
};
use dwell_store_embedded::storage::{MemoryStorage, Storage};
use dwell_store_embedded::{Config, EmbeddedStore, OpenError, RepairOptions, repair};

use crate::world::{config, new_job, topic};

/// How many corruptions are tried unless `CORRUPTIONS` says otherwise, of how many jobs unless `JOBS` does; of these each
/// is looked up, or every so many as `EVERY` says.
const CORRUPTIONS: u64 = 150;
const JOBS: usize = 3_000;

/// What became of a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It opened, and everything was there.
    Unharmed,
    /// It did not open, and said why.
    Refused,
    /// It opened, said what it could not read, and everything else was there.
    Degraded,
}

fn open(storage: &MemoryStorage) -> Result<EmbeddedStore, OpenError> {
    let base = config(Arc::new(storage.clone()));
    EmbeddedStore::open(&Config { cold_tier: true, tail: 128 << 10, block: 2 << 10, memory: 1 << 20, ..base })
}

fn body(number: usize) -> Vec<u8> {
    format!("the body of job {number}, ").repeat(1 + number % 7).into_bytes()
}

fn environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// A store with jobs in the cold tier and in the journal, some ended and some in hand, orderly closed; the names of those that
/// live.
async fn made(jobs: usize) -> (MemoryStorage, Vec<usize>) {
    let storage = MemoryStorage::default();
    let store = open(&storage).unwrap();
    let job = |number: usize| {
        let when = if number.is_multiple_of(10) { 0 } else { 3_600_000 + number as u64 };
        let when = When::In(Delay::from_millis(when).unwrap());
        NewJob { body: Body::Bytes(Arc::from(body(number))), when, ..new_job(&number.to_string()) }
    };
    for first in (0..jobs).step_by(50) {
        let batch = (first..(first + 50).min(jobs)).map(job).collect();
        assert!(store.put(batch).await.unwrap().iter().all(Result::is_ok));
    }
    let mut live: Vec<usize> = (0..jobs).collect();
    for number in (1..jobs).step_by(9).filter(|number| !number.is_multiple_of(10)) {
        let job = JobRef::Named(topic(), JobId::new(&number.to_string()).unwrap());
        assert_eq!(store.cancel(vec![CancelItem { job, if_match: None, force: false }]).await.unwrap(), [Ok(())]);
        live.retain(|other| *other != number);
    }
    let held = store.lease(LeaseRequest::of(topic()).up_to(20)).await.unwrap();
    for (job, verdict) in
        held.iter().zip([Verdict::Ack, Verdict::Bury { reason: None, priority: None }].into_iter().cycle())
    {
        let acked = verdict == Verdict::Ack;
        let settled = store.settle(vec![Settle::new(job.token.unwrap(), verdict)]).await.unwrap();
        assert_eq!(settled, [Ok(())]);
        if acked {
            let number: usize = job.view.job.id.as_str().parse().unwrap();
            live.retain(|other| *other != number);
        }
    }
    store.lease(LeaseRequest::of(topic()).up_to(5)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    (storage, live)
}

/// All jobs of these that are there, each with the body it was put with, and those that nothing is said of.
async fn found(store: &EmbeddedStore, jobs: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let (mut there, mut refused) = (Vec::new(), Vec::new());
    for numbers in jobs.chunks(100) {
        let mut answers = Vec::new();
        if let Ok(found) = look_up(store, numbers).await {
            answers.extend(found.into_iter().map(Ok));
        } else {
            for number in numbers {
                answers.push(look_up(store, &[*number]).await.map(|mut found| found.remove(0)));
            }
        }
        for (&number, answer) in numbers.iter().zip(answers) {
            match answer.map(|found| found.and_then(Found::live)) {
                Ok(Some(view)) => {
                    assert_eq!(view.job.body.as_bytes(), body(number), "job {number} has another's body");
                    there.push(number);
                }
                Ok(None) => {}
                Err(StoreError::Unreadable { .. }) => refused.push(number),
                Err(error) => panic!("job {number}: {error}"),
            }
        }
    }
    (there, refused)
}

async fn look_up(store: &EmbeddedStore, numbers: &[usize]) -> Result<Vec<Option<Found>>, StoreError> {
    let job = |number: &usize| JobRef::Named(topic(), JobId::new(&number.to_string()).unwrap());
    store.get(numbers.iter().map(job).map(Lookup::Job).collect()).await
}

fn bytes_of(storage: &MemoryStorage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    storage.create(name).unwrap().write_at(0, bytes).unwrap();
}

/// Damages something; what.
fn damage(storage: &MemoryStorage, mut chance: u64) -> String {
    let mut roll = |below: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(chance >> 33).unwrap() % below.max(1)
    };
    let mut names: Vec<String> = storage.list().unwrap();
    names.retain(|name| !name.starts_with("spare") && name != "reserve");
    names.sort();
    let name = names[roll(names.len())].clone();
    let mut bytes = bytes_of(storage, &name);
    match roll(8) {
        0 => {
            storage.remove(&name).unwrap();
            format!("{name} removed")
        }
        1 => {
            bytes.truncate(roll(bytes.len()));
            replace(storage, &name, &bytes);
            format!("{name} cut to {}", bytes.len())
        }
        2 => {
            let other = names[roll(names.len())].clone();
            replace(storage, &name, &bytes_of(storage, &other));
            replace(storage, &other, &bytes);
            format!("{name} and {other} swapped")
        }
        3 => {
            let from = roll(bytes.len()) & !4_095;
            let to = (from + 4_096).min(bytes.len());
            bytes[from..to].fill(0);
            replace(storage, &name, &bytes);
            format!("{name} blank at {from}")
        }
        _ => {
            let bits = 1 + roll(3);
            let mut places = Vec::new();
            for _ in 0..bits {
                let at = roll(bytes.len());
                bytes[at] ^= 1 << roll(8);
                places.push(at);
            }
            replace(storage, &name, &bytes);
            format!("{name} flipped at {places:?}")
        }
    }
}

/// Opens a damaged store; what became of it.
async fn judge(storage: &MemoryStorage, jobs: &[usize], live: &[usize], what: &str) -> Outcome {
    let Ok(store) = open(storage) else { return Outcome::Refused };
    let (there, refused) = found(&store, jobs).await;
    let status = store.status().await.expect("the status answers");
    if there == live && refused.is_empty() && status.troubles.is_empty() {
        return Outcome::Unharmed;
    }
    assert!(!status.troubles.is_empty(), "{what}: {} of {} jobs, and not a word", there.len(), live.len());
    let lost = live.iter().filter(|number| !there.contains(number) && !refused.contains(number)).count();
    assert_eq!(lost, 0, "{what}: {:?}, and nothing is said of {lost} jobs", status.troubles);
    Outcome::Degraded
}

/// Repairs a damaged store; how many jobs are missing afterwards.
async fn mend(storage: &MemoryStorage, jobs: &[usize], live: &[usize], what: &str) -> usize {
    let mended = MemoryStorage::default();
    let report = repair(storage, &mended, RepairOptions::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let store = open(&mended).unwrap_or_else(|error| panic!("{what}: after repair: {error}\n{report:#?}"));
    let (there, refused) = found(&store, jobs).await;
    assert!(refused.is_empty(), "{what}: after repair nothing is said of {refused:?}");
    let status = store.status().await.expect("the status answers");
    assert_eq!(status.troubles, Vec::<String>::new(), "{what}: {report:#?}");
    let missing: Vec<_> = live.iter().filter(|number| there.binary_search(number).is_err()).collect();
    assert!(missing.is_empty() || !report.dropped.is_empty(), "{what}: {missing:?} are gone without a word");
    assert!(report.jobs >= there.len() as u64, "{what}: {report:?}, {} there", there.len());
    if report.dropped.is_empty() {
        assert_eq!(there, live, "{what}");
    }
    missing.len()
}

#[tokio::test]
async fn whatever_is_damaged_a_start_is_loud_or_right_and_a_repair_keeps_the_rest() {
    let jobs = usize::try_from(environment("JOBS", JOBS as u64)).unwrap();
    let (whole, live) = made(jobs).await;
    assert!(whole.list().unwrap().iter().any(|name| name.starts_with("run-")), "nothing is in the cold tier");
    let mut outcomes: BTreeMap<Outcome, (u64, usize)> = BTreeMap::new();
    let first = environment("FIRST", 0);
    let every = usize::try_from(environment("EVERY", 1)).unwrap();
    let jobs: Vec<usize> = (0..jobs).step_by(every).collect();
    let live: Vec<usize> = live.into_iter().filter(|number| number.is_multiple_of(every)).collect();
    for seed in first..first + environment("CORRUPTIONS", CORRUPTIONS) {
        let damaged = whole.image();
        let what = format!("seed {seed}: {}", damage(&damaged, seed));
        let missing = mend(&damaged, &jobs, &live, &what).await;
        let outcome = judge(&damaged.image(), &jobs, &live, &what).await;
        let (count, lost) = outcomes.entry(outcome).or_default();
        *count += 1;
        *lost += missing;
        if seed % 100 == 99 {
            println_line(&format!("after {seed}: {outcomes:?}"));
        }
    }
    assert!(outcomes.contains_key(&Outcome::Refused) && outcomes.contains_key(&Outcome::Degraded), "{outcomes:?}");
}

#[expect(clippy::print_stdout, reason = "the figures are wanted when it is run by hand")]
fn println_line(text: &str) {
    println!("{text}");
}
