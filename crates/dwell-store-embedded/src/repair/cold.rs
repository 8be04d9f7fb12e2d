//! What can be read of the cold tier: whole runs are taken over, with more of their jobs marked as gone; a run whose tables
//! cannot be read is written anew from its blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::Arc;

use dwell_core::{Priority, Timestamp};
use roaring::RoaringBitmap;

use super::journal::{Kept, Salvaged};
use super::{Repair, nameless};
use crate::cold::LiveRun;
use crate::engine::minute;
use crate::format::key::{Lane, Slice};
use crate::format::manifest::{Manifest, RunName};
use crate::format::record::{RecordHeader, TopicId};
use crate::format::run::{self, Block, Run, RunWriter, id_hash};
use crate::format::tombstone_file;
use crate::format::topics::{ColdSummary, SliceSummary};
use crate::storage::{Storage, StoredFile};

/// Bytes of a block of a run that is written anew.
const BLOCK_BYTES: usize = 32 << 10;

/// Bytes copied at a time.
const COPY_STEP: usize = 1 << 20;

/// What there is in the cold tier.
pub(super) struct SalvagedCold {
    pub(super) runs: Vec<RunName>,
    pub(super) summary: ColdSummary,
    pub(super) jobs: u64,
    pub(super) last_number: u64,
}

/// Takes over what can be read of all runs.
pub(super) fn salvage(
    from: &dyn Storage,
    to: &dyn Storage,
    names: &[String],
    manifest: Option<&Manifest>,
    journal: &mut Salvaged,
    found: &mut Repair,
) -> io::Result<SalvagedCold> {
    let mut wanted = match manifest {
        Some(manifest) => manifest.runs.clone(),
        None => runs_there_are(names),
    };
    wanted.sort_unstable_by_key(|name| name.run);
    let next = names.iter().filter_map(|name| run::parse_name(name)).max().unwrap_or(0);
    let stamps =
        names.iter().filter_map(|name| tombstone_file::parse_name(name)).map(|(_, stamp)| stamp).max().unwrap_or(0);
    let mut cold = Salvaging {
        from,
        to,
        next: next.max(stamps) + 1,
        ids: journal_ids(journal),
        counts: Counts::default(),
        newest: None,
        last_number: 0,
        runs: Vec::new(),
    };
    let dead = cold.load_dead(&wanted, found);
    if manifest.is_none() || dead.iter().any(Option::is_none) {
        cold.find_newest(&wanted, &dead, journal);
    }
    for (name, dead) in wanted.into_iter().zip(dead) {
        cold.run(name, dead.unwrap_or_default(), journal, found)?;
    }
    let Salvaging { counts, last_number, runs, .. } = cold;
    for what in std::mem::take(&mut journal.bodiless).into_values() {
        found.note(from, "", what);
    }
    Ok(SalvagedCold { runs, jobs: counts.jobs, last_number, summary: counts.summary(journal) })
}

fn runs_there_are(names: &[String]) -> Vec<RunName> {
    let stamp = |run: u64| {
        let stamps = names.iter().filter_map(|name| tombstone_file::parse_name(name)).filter(|(of, _)| *of == run);
        stamps.map(|(_, stamp)| stamp).max()
    };
    names.iter().filter_map(|name| run::parse_name(name)).map(|run| RunName { run, dead: stamp(run) }).collect()
}

/// The ids of all jobs that the journal has: a job of the same id in the cold tier is not the newest of that name.
fn journal_ids(journal: &Salvaged) -> HashSet<(TopicId, Vec<u8>)> {
    let jobs = journal.jobs.values().filter_map(|kept| match kept {
        Kept::Job { topic, record, .. } => Some((*topic, crate::format::record::id_of(record).to_vec())),
        Kept::Gone => None,
    });
    jobs.collect()
}

struct Salvaging<'a> {
    from: &'a dyn Storage,
    to: &'a dyn Storage,
    /// The next number for a file.
    next: u64,
    ids: HashSet<(TopicId, Vec<u8>)>,
    counts: Counts,
    /// The newest version of each number and of each hash of an id, where older copies may be among those there are.
    newest: Option<[HashMap<u64, u64>; 2]>,
    last_number: u64,
    runs: Vec<RunName>,
}

impl Salvaging<'_> {
    /// The sets of dead jobs of all runs; none where one cannot be read.
    fn load_dead(&self, runs: &[RunName], found: &mut Repair) -> Vec<Option<RoaringBitmap>> {
        let mut all = Vec::new();
        for RunName { run, dead } in runs {
            let loaded = dead.map_or(Ok(RoaringBitmap::new()), |stamp| tombstone_file::load(self.from, *run, stamp));
            if let Err(error) = &loaded {
                let what =
                    format!("cannot be read ({error}); jobs of {} that had ended may come back", run::name(*run));
                found.note(self.from, &tombstone_file::name(*run, dead.unwrap_or(0)), what);
            }
            all.push(loaded.ok());
        }
        all
    }

    /// Looks through all runs for the newest copy of each job.
    fn find_newest(&mut self, runs: &[RunName], dead: &[Option<RoaringBitmap>], journal: &Salvaged) {
        let mut newest = [HashMap::new(), HashMap::new()];
        for (name, dead) in runs.iter().zip(dead) {
            let Ok(run) = Run::open(self.from, name.run) else { continue };
            for block in (0..run.index.len()).filter_map(|at| run.block(at).ok()) {
                let alive = |ordinal| dead.as_ref().is_none_or(|dead| !dead.contains(ordinal));
                let seen = block.entries().filter(|entry| alive(entry.ordinal)).map(|entry| run::look(entry.record));
                for seen in seen.flatten().filter(|seen| self.is_true(seen, journal)) {
                    for (newest, key) in newest.iter_mut().zip(keys(&seen)) {
                        let version = newest.entry(key).or_insert(0);
                        *version = seen.version.get().max(*version);
                    }
                }
            }
        }
        self.newest = Some(newest);
    }

    fn run(
        &mut self,
        name: RunName,
        dead: RoaringBitmap,
        journal: &mut Salvaged,
        found: &mut Repair,
    ) -> io::Result<()> {
        let file = run::name(name.run);
        match Run::open(self.from, name.run) {
            Ok(run) => {
                let readable = tables_can_be_read(&run);
                let live_run = LiveRun { run: Arc::new(run), dead: Arc::new(dead), stamp: name.dead };
                if !readable {
                    found.note(self.from, &file, "a table cannot be read; it was made again");
                }
                self.take_over(&live_run, !readable, journal, found)
            }
            Err(error) => {
                let blocks = self.blocks_in_a_row(name.run);
                let jobs: usize = blocks.iter().map(Block::len).sum();
                let what = format!("cannot be read as a whole ({error}); {jobs} jobs were found at its beginning");
                found.note(self.from, &file, what);
                self.write_again(blocks.into_iter(), &dead, journal)
            }
        }
    }

    /// Takes over a run that can be opened.
    fn take_over(
        &mut self,
        live_run: &LiveRun,
        anew: bool,
        journal: &mut Salvaged,
        found: &mut Repair,
    ) -> io::Result<()> {
        let run = &live_run.run;
        let file = run::name(run.number);
        if anew {
            note_bad_blocks(self.from, live_run, found);
            let blocks = (0..run.index.len()).filter_map(|at| run.block(at).ok());
            return self.write_again(blocks, &live_run.dead, journal);
        }
        let mut dead = RoaringBitmap::clone(&live_run.dead);
        for at in 0..run.index.len() {
            match run.block(at) {
                Ok(block) => {
                    let gone: Vec<u32> = self.look(&block, &dead, journal);
                    dead.extend(gone);
                }
                Err(_) => drop(dead.insert_range(run.index[at].first..run.end_of(at))),
            }
        }
        note_bad_blocks(self.from, live_run, found);
        if dead.len() == u64::from(run.entries) {
            return Ok(());
        }
        copy(self.from, self.to, &file)?;
        let stamp = if dead.is_empty() { None } else { Some(self.take_number()) };
        if let Some(stamp) = stamp {
            tombstone_file::store(self.to, run.number, stamp, &dead)?;
        }
        self.runs.push(RunName { run: run.number, dead: stamp });
        Ok(())
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Which jobs of a block are no more, beside those that are known to be.
    fn look(&mut self, block: &Block, dead: &RoaringBitmap, journal: &mut Salvaged) -> Vec<u32> {
        let mut gone = Vec::new();
        for entry in block.entries().filter(|entry| !dead.contains(entry.ordinal)) {
            let Ok(seen) = run::look(entry.record) else { continue };
            self.last_number = self.last_number.max(seen.meta.number.get());
            if self.is_true(&seen, journal) {
                journal.bodiless.remove(&seen.meta.number.get());
                journal.topics.entry(seen.topic).or_insert_with(|| nameless(seen.topic));
                self.counts.count(entry.key.slice, &seen);
            } else {
                gone.push(entry.ordinal);
            }
        }
        gone
    }

    /// Whether a copy is the newest of its job, as far as anybody knows.
    fn is_true(&self, seen: &RecordHeader<'_>, journal: &Salvaged) -> bool {
        let (number, version) = (seen.meta.number.get(), seen.version.get());
        let superseded = journal.jobs.contains_key(&number)
            || journal.stale.contains(&(number, version))
            || journal.gone_topics.contains(&seen.topic)
            || self.ids.contains(&(seen.topic, seen.id.to_vec()));
        let is_newest = |newest: &[HashMap<u64, u64>; 2]| {
            newest.iter().zip(keys(seen)).all(|(newest, key)| newest.get(&key).is_none_or(|newest| *newest <= version))
        };
        !superseded && self.newest.as_ref().is_none_or(is_newest)
    }

    /// The blocks of a run from its beginning on, as far as they can be read.
    fn blocks_in_a_row(&self, number: u64) -> Vec<Block> {
        let Ok(bytes) = crate::recovery::read(self.from, &run::name(number)) else { return Vec::new() };
        run::blocks_in_a_row(&bytes)
    }

    /// Writes what can be read of a run into a new one.
    fn write_again(
        &mut self,
        blocks: impl Iterator<Item = Block>,
        dead: &RoaringBitmap,
        journal: &mut Salvaged,
    ) -> io::Result<()> {
        let number = self.take_number();
        let mut writer = RunWriter::create(self.to, number, BLOCK_BYTES)?;
        let (mut ids, mut numbers) = (Vec::new(), Vec::new());
        for block in blocks {
            let gone: RoaringBitmap = self.look(&block, dead, journal).into_iter().collect();
            let live = block.entries().filter(|entry| !dead.contains(entry.ordinal) && !gone.contains(entry.ordinal));
            for entry in live {
                let ordinal = writer.add(entry.key, entry.record)?;
                let id = crate::format::record::id_of(entry.record);
                ids.push((id_hash(entry.key.slice.topic, id), ordinal));
                numbers.push((entry.key.number.get(), ordinal));
            }
        }
        if ids.is_empty() {
            return self.to.remove(&run::name(number));
        }
        writer.finish_with(ids, numbers)?;
        self.runs.push(RunName { run: number, dead: None });
        Ok(())
    }
}

/// What a job is found by: its number, and the hash of its topic and id.
fn keys(seen: &RecordHeader<'_>) -> [u64; 2] {
    [seen.meta.number.get(), id_hash(seen.topic, seen.id)]
}

fn tables_can_be_read(run: &Run) -> bool {
    let whole = |(table, file): (&crate::format::table::Table, &dyn StoredFile)| {
        (0..table.pages()).all(|page| table.page(file, page).is_ok())
    };
    run.tables().into_iter().all(whole)
}

fn note_bad_blocks(from: &dyn Storage, live_run: &LiveRun, found: &mut Repair) {
    let run = &live_run.run;
    for at in (0..run.index.len()).filter(|at| !live_run.is_dead(*at)) {
        if let Err(error) = run.block(at) {
            let (first, end) = (run.index[at].first, run.end_of(at));
            let lost = u64::from(end - first) - live_run.dead.range_cardinality(first..end);
            let what = format!("at byte {}: {lost} jobs cannot be read: {error}", run.offset_of(at));
            found.note(from, &run::name(run.number), what);
        }
    }
}

fn copy(from: &dyn Storage, to: &dyn Storage, name: &str) -> io::Result<()> {
    let (source, target) = (from.open(name)?, to.create(name)?);
    let mut buffer = vec![0; COPY_STEP];
    let mut offset = 0;
    loop {
        let read = source.read_at(offset, &mut buffer)?;
        if read == 0 {
            return target.sync_data();
        }
        target.write_at(offset, &buffer[..read])?;
        offset += read as u64;
    }
}

/// Gives each lane the priority that was found there. Lanes without any belong to priorities that nobody uses.
pub(crate) fn fill_lanes(lanes: &mut Vec<Priority>, found: &BTreeMap<usize, Priority>) {
    let mut used: BTreeSet<Priority> = found.values().copied().collect();
    for (place, priority) in lanes.iter_mut().enumerate() {
        match found.get(&place) {
            Some(of) => *priority = *of,
            None if used.contains(priority) => *priority = unused(&used),
            None => {}
        }
        used.insert(*priority);
    }
    for place in lanes.len()..found.last_key_value().map_or(0, |(last, _)| last + 1) {
        let priority = found.get(&place).copied().unwrap_or_else(|| unused(&used));
        used.insert(priority);
        lanes.push(priority);
    }
}

fn unused(used: &BTreeSet<Priority>) -> Priority {
    let free = (0..=u32::MAX).rev().map(Priority).find(|priority| !used.contains(priority));
    free.expect("a topic has a few hundred lanes at the most")
}

/// How many jobs there are of each slice.
#[derive(Default)]
struct Counts {
    slices: BTreeMap<Slice, (u64, Timestamp)>,
    minutes: BTreeMap<u64, u64>,
    lanes: BTreeMap<TopicId, BTreeMap<usize, Priority>>,
    jobs: u64,
}

impl Counts {
    fn count(&mut self, slice: Slice, seen: &RecordHeader<'_>) {
        let due_at = seen.meta.due_at;
        let (jobs, first) = self.slices.entry(slice).or_insert((0, Timestamp::MAX));
        *jobs += 1;
        *first = due_at.min(*first);
        if slice.lane != Lane::BURIED {
            *self.minutes.entry(minute(due_at)).or_default() += 1;
        }
        if let Some(place) = slice.lane.place() {
            self.lanes.entry(slice.topic).or_default().insert(place, seen.meta.priority);
        }
        self.jobs += 1;
    }

    fn summary(self, journal: &Salvaged) -> ColdSummary {
        let mut lanes = journal.lanes.clone();
        for (topic, found) in self.lanes {
            fill_lanes(lanes.entry(topic).or_default(), &found);
        }
        lanes.retain(|topic, _| journal.topics.contains_key(topic));
        let slices = self.slices.into_iter().map(|(slice, (jobs, first))| SliceSummary {
            slice,
            jobs,
            first,
            // Whatever time has done to them: they are looked at.
            passes: Timestamp::EPOCH,
        });
        ColdSummary {
            lanes: lanes.into_iter().collect(),
            slices: slices.collect(),
            minutes: self.minutes.into_iter().collect(),
            stale: Vec::new(),
        }
    }
}
