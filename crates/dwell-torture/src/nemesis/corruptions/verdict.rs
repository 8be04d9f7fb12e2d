//! What a damaged store may do, and what it must not.

use std::collections::BTreeMap;
use std::fmt;

use super::look::{Repaired, Seen, Start};

/// What a damaged store may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// The start was refused, with the file and the place in it.
    RefusedAtByte,
    /// The start was refused, with the file.
    RefusedFile,
    /// It said what cannot be read, and so it did when asked for a job there; all others were as they were.
    Reported,
    /// It said what cannot be read, every job was as it was, and some that had ended were there again.
    ReportedAndBack,
    /// It said what cannot be read, and every job was as it was.
    ReportedAndWhole,
    /// Everything was as it was.
    Harmless,
}

/// What a repair may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mended {
    /// Everything is as it was.
    Whole,
    /// Every job that lived is there; something was dropped, which a job may not know to have happened to it.
    NothingLost,
    /// Jobs are gone, and it says what was dropped: so many.
    Dropped(u64),
}

/// What it must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Broken {
    /// A job is gone without a word.
    Lost,
    /// A job is not as it was.
    Changed,
    /// A job that had ended is there again without a word.
    Back,
    /// Something cannot be read, and the store does not say so by itself.
    Silent,
    /// What was said does not name the file.
    Unnamed,
    Panicked,
    Hung,
    /// Anything else.
    Odd,
}

type Judged<T> = Result<T, (Broken, String)>;

pub(super) fn of_start(start: &Start, files: &[String]) -> Judged<Class> {
    match start {
        Start::Hung => Err((Broken::Hung, "no end of it".to_owned())),
        Start::Panicked => Err((Broken::Panicked, "a thread panicked".to_owned())),
        Start::Refused(why) if !names(why, files) => Err((Broken::Unnamed, format!("refused: {why}"))),
        Start::Refused(why) if why.contains(" at byte ") => Ok(Class::RefusedAtByte),
        Start::Refused(_) => Ok(Class::RefusedFile),
        Start::Opened(seen) => of_open(seen, files),
    }
}

fn of_open(seen: &Seen, files: &[String]) -> Judged<Class> {
    // Whatever is said: none of this is ever right.
    for (wrong, broken) in
        [(&seen.lost, Broken::Lost), (&seen.changed, Broken::Changed), (&seen.older, Broken::Changed)]
    {
        if !wrong.is_empty() {
            return Err((broken, format!("{}; it said {:?}", some(wrong), seen.troubles)));
        }
    }
    if let Some(odd) = seen.odd.first() {
        return Err((Broken::Odd, odd.clone()));
    }
    if seen.troubles.is_empty() {
        return match (seen.unreadable.is_empty(), seen.back.is_empty()) {
            (true, true) => Ok(Class::Harmless),
            (false, _) => Err((Broken::Silent, some(&seen.unreadable))),
            (true, false) => Err((Broken::Back, some(&seen.back))),
        };
    }
    if !names(&seen.troubles.join("\n"), files) {
        return Err((Broken::Unnamed, format!("{:?}", seen.troubles)));
    }
    Ok(match (seen.unreadable.is_empty(), seen.back.is_empty()) {
        (false, _) => Class::Reported,
        (true, false) => Class::ReportedAndBack,
        (true, true) => Class::ReportedAndWhole,
    })
}

pub(super) fn of_repair(repaired: &Repaired, live: u64) -> Judged<Mended> {
    let (dropped, kept, seen) = match repaired {
        Repaired::Failed(why) => return Err((Broken::Odd, why.clone())),
        Repaired::Opened { dropped, kept, seen } => (dropped, *kept, seen),
    };
    let silent = dropped.is_empty();
    let there = seen.good + seen.older.len() as u64;
    let troubles = seen.troubles.first().or(seen.odd.first());
    match () {
        () if !seen.changed.is_empty() => Err((Broken::Changed, some(&seen.changed))),
        () if !seen.older.is_empty() && silent => Err((Broken::Changed, some(&seen.older))),
        () if !seen.lost.is_empty() && silent => Err((Broken::Lost, some(&seen.lost))),
        () if !seen.back.is_empty() && silent => Err((Broken::Back, some(&seen.back))),
        () if !seen.unreadable.is_empty() => Err((Broken::Odd, format!("unreadable: {}", some(&seen.unreadable)))),
        () if troubles.is_some() => Err((Broken::Odd, format!("{troubles:?}"))),
        () if kept < there => Err((Broken::Odd, format!("{kept} kept, and {there} there"))),
        () if there + seen.lost.len() as u64 != live => Err((Broken::Odd, format!("{there} of {live}"))),
        () if !seen.lost.is_empty() => Ok(Mended::Dropped(seen.lost.len() as u64)),
        () if silent => Ok(Mended::Whole),
        () => Ok(Mended::NothingLost),
    }
}

/// Whether words name one of these files.
fn names(words: &str, files: &[String]) -> bool {
    files.iter().any(|file| words.contains(file.as_str()))
}

fn some(jobs: &[u64]) -> String {
    let few: Vec<String> = jobs.iter().take(5).map(ToString::to_string).collect();
    format!("{} jobs: {}{}", jobs.len(), few.join(", "), if jobs.len() > few.len() { ", …" } else { "" })
}

/// All that has become of damaged stores.
#[derive(Default)]
pub(super) struct Table {
    /// By kind of damage.
    classes: BTreeMap<&'static str, BTreeMap<Class, u64>>,
    /// How many repairs, and how many jobs they have lost.
    mended: BTreeMap<&'static str, (u64, u64)>,
    broken: BTreeMap<Broken, Vec<String>>,
}

/// Examples that are printed of each.
const EXAMPLES: usize = 5;

impl Table {
    pub(super) fn count(&mut self, kind: &'static str, class: Class) {
        *self.classes.entry(kind).or_default().entry(class).or_default() += 1;
    }

    pub(super) fn count_repair(&mut self, mended: Mended) {
        let (name, lost) = match mended {
            Mended::Whole => ("everything was as it was", 0),
            Mended::NothingLost => ("something was dropped, and no job with it", 0),
            Mended::Dropped(lost) => ("jobs were dropped, and what was dropped is listed", lost),
        };
        let (count, jobs) = self.mended.entry(name).or_default();
        (*count, *jobs) = (*count + 1, *jobs + lost);
    }

    /// Something is not as it must be: it is said at once, and again at the end.
    pub(super) fn broken(&mut self, broken: Broken, what: String) {
        println!("  {broken:?}: {what}");
        self.broken.entry(broken).or_default().push(what);
    }

    /// How often something was not as it must be.
    pub(super) fn went_wrong(&self) -> usize {
        self.broken.values().map(Vec::len).sum()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.broken.is_empty()
    }

    /// How many starts were judged.
    pub(super) fn tried(&self) -> u64 {
        self.classes.values().flat_map(BTreeMap::values).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Class::{Harmless, RefusedAtByte, RefusedFile, Reported, ReportedAndBack, ReportedAndWhole};
        writeln!(
            f,
            "| damage | refused, with file and byte | refused, with file | served, with what cannot be read | the same, every job there | the same, ended jobs back | no difference |"
        )?;
        writeln!(f, "|---|--:|--:|--:|--:|--:|--:|")?;
        for (kind, classes) in &self.classes {
            write!(f, "| {kind} |")?;
            for class in [RefusedAtByte, RefusedFile, Reported, ReportedAndWhole, ReportedAndBack, Harmless] {
                write!(f, " {} |", classes.get(&class).copied().unwrap_or(0))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\n| repaired | | jobs that were dropped |\n|---|--:|--:|")?;
        for (name, (count, jobs)) in &self.mended {
            writeln!(f, "| {name} | {count} | {jobs} |")?;
        }
        writeln!(f)?;
        for (broken, examples) in &self.broken {
            writeln!(f, "  {broken:?}: {}", examples.len())?;
            for example in examples.iter().take(EXAMPLES) {
                writeln!(f, "    {example}")?;
            }
        }
        let zeros = [Broken::Lost, Broken::Changed, Broken::Back, Broken::Silent, Broken::Panicked, Broken::Hung];
        let count = |broken| self.broken.get(&broken).map_or(0, Vec::len);
        let [lost, changed, back, silent, panicked, hung] = zeros.map(count);
        write!(
            f,
            "  verdict     {lost} lost, {changed} changed, {back} back, {silent} silent, {panicked} panics, {hung} hangs"
        )
    }
}
