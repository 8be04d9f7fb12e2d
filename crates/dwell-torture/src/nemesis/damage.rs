//! Bits that flip in stored files while no server runs. A start must be refused with the file and the place, or the store
//! must fail where it meets the damage, or it makes no difference.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Outcome;
use crate::checker::Wrong;
use crate::fleet::Load;
use crate::history::Means;
use crate::job::scramble;
use crate::run::{Options, Run};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many
    #[arg(long, default_value_t = 50)]
    pub(crate) count: u32,
}

/// Flips before everything is consumed and judged.
const PER_ROUND: u32 = 10;

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    let mut run = Run::new(&format!("{} flipped bits", args.count), Load::MIXED, options)?;
    run.fail_reads();
    let (mut loud, mut later, mut harmless) = (0, 0, 0);
    let mut left = args.count;
    while left > 0 {
        let mut stage = run.begin()?;
        stage.start()?;
        for _ in 0..left.min(PER_ROUND) {
            stage.load(Duration::from_millis(150)).await;
            if let Some(said) = stage.failure().await {
                return Err(format!("the store has failed and nothing is damaged: {said}").into());
            }
            stage.stop()?;
            stage.fault("flipped bits", Means::Nothing);
            let flip = Flip::choose(&stage.recipe.data, run.chance(u64::MAX))?;
            flip.turn()?;
            match stage.try_start()? {
                Ok(()) => {
                    stage.load(Duration::from_millis(400)).await;
                    let said = stage.failure().await;
                    let is_loud = said.is_some();
                    (later, harmless) = (later + u32::from(is_loud), harmless + u32::from(!is_loud));
                    if said.is_some_and(|said| !flip.is_named_in(&said)) {
                        run.wrong(Wrong::Odd, format!("{flip:?} is not named where the store fails"));
                    }
                    stage.kill()?;
                    flip.mend()?;
                    stage.start()?;
                }
                Err(not_started) => {
                    loud += 1;
                    if !flip.is_named_in(&not_started.said) {
                        run.wrong(Wrong::Odd, format!("{flip:?} is not named in: {}", not_started.said));
                    }
                    flip.turn()?;
                    stage.start()?;
                }
            }
        }
        left -= left.min(PER_ROUND);
        run.end(stage).await?;
    }
    println!("  {loud} starts refused with the file, {later} stores failed later, {harmless} made no difference");
    Ok(run.finish())
}

/// A bit of a file.
#[derive(Debug)]
struct Flip {
    file: PathBuf,
    /// Held open, so that no other file can be taken for it.
    open: File,
    offset: u64,
    bit: u8,
}

impl Flip {
    /// Any bit of a byte that is not zero: most of what is zero is not used.
    fn choose(data: &Path, chance: u64) -> Outcome<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(data)? {
            let entry = entry?;
            if entry.metadata()?.len() > 0 && !entry.file_name().to_string_lossy().starts_with("spare") {
                files.push(entry.path());
            }
        }
        files.sort();
        let count = u64::try_from(files.len())?;
        if count == 0 {
            return Err("there are no files to damage".into());
        }
        let file = files.swap_remove(usize::try_from(chance % count)?);
        let bytes = std::fs::read(&file)?;
        let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let place = scramble(chance) % u64::try_from(used.len().max(1))?;
        let offset = used.get(usize::try_from(place)?).copied().unwrap_or_default();
        let open = File::options().read(true).write(true).open(&file)?;
        Ok(Self { file, open, offset: u64::try_from(offset)?, bit: 1 << (chance >> 61) })
    }

    fn turn(&self) -> Outcome<()> {
        let mut byte = [0];
        self.open.read_exact_at(&mut byte, self.offset)?;
        self.open.write_all_at(&[byte[0] ^ self.bit], self.offset)?;
        Ok(self.open.sync_data()?)
    }

    /// Turns it back after a server has run, if the file is of those that never change and is still there. One that no
    /// manifest named is cleared away by a start, and another may have its name since.
    fn mend(&self) -> Outcome<()> {
        let is_run = self.file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("run-"));
        let inode = self.open.metadata()?.ino();
        let is_there = std::fs::metadata(&self.file).is_ok_and(|there| there.ino() == inode);
        if is_run && is_there { self.turn() } else { Ok(()) }
    }

    /// Whether words name the file and a place in it.
    fn is_named_in(&self, words: &str) -> bool {
        let name = self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        words.contains(&name)
    }
}
