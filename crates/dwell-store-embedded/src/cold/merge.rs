//! Compaction: a k-way merge of several runs into one, without deleted rows. It goes on in small steps, and flushes go first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::{LiveRun, stand_back};
use crate::format::bloom_filter::Filter;
use crate::format::key::Key;
use crate::format::run::{Block, Run, RunError, RunWriter, TableWriter};
use crate::storage::Storage;

/// A job that is not in the new run.
const LEFT_OUT: u32 = u32::MAX;

/// A merge under way.
pub(crate) struct Merge {
    /// The new run.
    pub(crate) number: u64,
    inputs: Vec<Input>,
    writer: Option<RunWriter>,
    heads: BinaryHeap<Reverse<(Key, usize)>>,
    stage: Stage,
}

enum Stage {
    Jobs,
    Ids(TableMerge, Filter),
    Numbers(TableMerge, Vec<u64>, Filter),
}

/// One of the runs that are merged.
struct Input {
    /// As it was when the merge began.
    live_run: LiveRun,
    at: usize,
    block: Option<Block>,
    place: usize,
    /// Where its jobs are in the new run, by ordinal.
    new: Vec<u32>,
}

struct TableMerge {
    table: TableWriter,
    heads: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// For each input, the page it is at and what is on it, last first.
    pages: Vec<(usize, Vec<(u64, u32)>)>,
}

/// How far a step has come.
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// The new run is written; for each of the old ones, where its jobs are now.
    Done(Arc<Run>, Vec<Moved>),
}

/// Where the jobs of a run that was merged are now.
pub(crate) struct Moved {
    pub(crate) run: u64,
    /// Those that were dead when the merge began.
    dead: Arc<RoaringBitmap>,
    new: Vec<u32>,
}

impl Moved {
    /// All jobs of the run that are in the new one.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.new.iter().copied().filter(|new| *new != LEFT_OUT)
    }

    /// Which jobs of the new run have died since the merge began.
    pub(crate) fn died_since(&self, dead: &RoaringBitmap) -> impl Iterator<Item = u32> {
        let since = dead - &*self.dead;
        since.into_iter().map(|ordinal| self.new[ordinal as usize]).filter(|new| *new != LEFT_OUT)
    }
}

impl Input {
    /// Goes to the first job from here on that is not dead; its key.
    fn settle(&mut self) -> Result<Option<Key>, RunError> {
        loop {
            if self.at >= self.live_run.run.index.len() {
                return Ok(None);
            }
            if self.block.is_none() && !self.live_run.is_dead(self.at) {
                self.block = Some(self.live_run.run.block(self.at)?);
                self.place = 0;
            }
            let block = self.block.as_ref();
            while let Some(entry) = block.and_then(|block| block.get(self.place)) {
                if !self.live_run.dead.contains(entry.ordinal) {
                    return Ok(Some(entry.key));
                }
                self.place += 1;
            }
            self.block = None;
            self.at += 1;
        }
    }
}

impl Merge {
    /// Begins to merge these runs into a new one.
    pub(crate) fn begin(storage: &dyn Storage, inputs: Vec<LiveRun>, run: u64, block: usize) -> Result<Self, RunError> {
        let writer = RunWriter::create(storage, run, block)?;
        let new = |live_run: &LiveRun| vec![LEFT_OUT; live_run.run.entries as usize];
        let inputs =
            inputs.into_iter().map(|live_run| Input { new: new(&live_run), live_run, at: 0, block: None, place: 0 });
        let (inputs, writer) = (inputs.collect(), Some(writer));
        let mut merge = Self { number: run, inputs, writer, heads: BinaryHeap::new(), stage: Stage::Jobs };
        for (input, at) in merge.inputs.iter_mut().zip(0..) {
            merge.heads.extend(input.settle()?.map(|key| Reverse((key, at))));
        }
        Ok(merge)
    }

    /// Which runs are merged.
    pub(crate) fn runs(&self) -> impl Iterator<Item = u64> {
        self.inputs.iter().map(|input| input.live_run.run.number)
    }

    /// Does a little: about so many bytes, or entries of tables.
    pub(crate) fn step(&mut self, bytes: usize) -> Result<Step, RunError> {
        let mut writer = self.writer.take().expect("a merge that has failed or is done is not gone on with");
        let stage = std::mem::replace(&mut self.stage, Stage::Jobs);
        self.stage = match stage {
            Stage::Jobs => self.jobs(&mut writer, bytes)?,
            Stage::Ids(mut table, mut filter) => {
                if self.table(&mut writer, &mut table, 0, bytes / 16, |hash| filter.insert(hash))? {
                    let (numbers, fences) = writer.end_ids(table.table)?;
                    Stage::Numbers(self.begin_table(numbers, 1)?, fences, filter)
                } else {
                    Stage::Ids(table, filter)
                }
            }
            Stage::Numbers(mut table, fences, filter) => {
                if self.table(&mut writer, &mut table, 1, bytes / 16, |_| {})? {
                    let run = Arc::new(writer.finish(table.table, fences, filter)?);
                    let moved = std::mem::take(&mut self.inputs).into_iter().map(|input| Moved {
                        run: input.live_run.run.number,
                        dead: input.live_run.dead,
                        new: input.new,
                    });
                    return Ok(Step::Done(run, moved.collect()));
                }
                Stage::Numbers(table, fences, filter)
            }
        };
        self.writer = Some(writer);
        Ok(Step::More)
    }

    fn jobs(&mut self, writer: &mut RunWriter, bytes: usize) -> Result<Stage, RunError> {
        let begin = writer.len();
        while let Some(Reverse((key, at))) = self.heads.pop() {
            let input = &mut self.inputs[at];
            if let Some(entry) = input.block.as_ref().and_then(|block| block.get(input.place)) {
                let new = writer.add(key, entry.record)?;
                input.new[entry.ordinal as usize] = new;
                stand_back(new);
            }
            input.place += 1;
            self.heads.extend(input.settle()?.map(|key| Reverse((key, at))));
            if writer.len() - begin >= bytes as u64 {
                return Ok(Stage::Jobs);
            }
        }
        let filter = Filter::for_hashes(writer.entries() as usize);
        let ids = writer.end_jobs()?;
        Ok(Stage::Ids(self.begin_table(ids, 0)?, filter))
    }

    fn begin_table(&self, table: TableWriter, which: usize) -> Result<TableMerge, RunError> {
        let pages = self.inputs.iter().map(|_| (0, Vec::new())).collect();
        let mut merge = TableMerge { table, heads: BinaryHeap::new(), pages };
        for at in 0..self.inputs.len() {
            self.next_entry(&mut merge, which, at)?;
        }
        Ok(merge)
    }

    /// Takes the next entry of an input's table whose job is in the new run.
    fn next_entry(&self, merge: &mut TableMerge, which: usize, at: usize) -> Result<(), RunError> {
        let input = &self.inputs[at];
        let (table, file) = input.live_run.run.tables()[which];
        let (page, entries) = &mut merge.pages[at];
        loop {
            while let Some((number, ordinal)) = entries.pop() {
                let new = input.new.get(ordinal as usize).copied().unwrap_or(LEFT_OUT);
                if new != LEFT_OUT {
                    merge.heads.push(Reverse((number, new, at)));
                    return Ok(());
                }
            }
            if *page >= table.pages() {
                return Ok(());
            }
            *entries = table.page(file, *page)?;
            entries.reverse();
            *page += 1;
        }
    }

    /// Merges so many entries; whether that were all.
    fn table(
        &self,
        writer: &mut RunWriter,
        merge: &mut TableMerge,
        which: usize,
        entries: usize,
        mut each: impl FnMut(u64),
    ) -> Result<bool, RunError> {
        for done in 0..u32::try_from(entries.max(1)).unwrap_or(u32::MAX) {
            stand_back(done);
            let Some(Reverse((number, ordinal, at))) = merge.heads.pop() else { return Ok(true) };
            each(number);
            writer.add_entry(&mut merge.table, number, ordinal)?;
            self.next_entry(merge, which, at)?;
        }
        Ok(false)
    }
}
