//! Whether two replies are the same.

use std::collections::BTreeMap;

use super::random::Random;

/// Jobs, by the order in which they were put: their ids with both servers, and what is known to differ.
#[derive(Default)]
pub(super) struct Jobs {
    ids: Vec<[String; 2]>,
    /// Some connection was closed: its jobs count as released.
    closed: bool,
    /// Known differences are differences.
    pub(super) strict: bool,
}

/// Keys of documents that tell of the server itself, or that Dwell has no use for.
const OWN_KEYS: [&str; 18] = [
    "pid",
    "version",
    "rusage-utime",
    "rusage-stime",
    "uptime",
    "id",
    "hostname",
    "os",
    "platform",
    "file",
    "binlog-oldest-index",
    "binlog-current-index",
    "binlog-records-migrated",
    "binlog-records-written",
    "binlog-max-size",
    // The test itself asks, and looks whether servers are up.
    "total-connections",
    "cmd-list-tube-used",
    "cmd-stats",
];

/// Keys that time changes while the test runs.
const TIMES: [&str; 3] = ["age", "time-left", "pause-time-left"];

impl Jobs {
    /// Any job that was put, or one that was not.
    pub(super) fn any(&self, random: &mut Random) -> u64 {
        random.below(self.ids.len() as u64 + 2) + 1
    }

    /// A command with ids as one of the servers knows them.
    pub(super) fn spell(&self, command: &str, side: usize) -> String {
        let mut words: Vec<&str> = command.split(' ').collect();
        let has_id = ["reserve-job", "delete", "release", "bury", "touch", "peek", "kick-job", "stats-job"];
        if words.len() > 1 && has_id.contains(&words[0]) {
            let known = words[1].parse::<usize>().ok().and_then(|number| self.ids.get(number.checked_sub(1)?));
            words[1] = match known {
                Some(ids) => &*ids[side],
                // Nobody's job, with both.
                None if words[1].parse::<u64>().is_ok() => "8888888888",
                None => words[1],
            };
        }
        words.join(" ")
    }

    pub(super) fn closed(&mut self) {
        self.closed = true;
    }

    /// The job of an id, in the order of puts.
    fn name(&self, id: &str, side: usize) -> String {
        let place = self.ids.iter().position(|ids| ids[side] == id);
        place.map_or_else(|| format!("unknown {id}"), |place| format!("job {}", place + 1))
    }
}

/// Compares the replies of both servers to one command.
pub(super) fn same(command: &str, theirs: &[String], ours: &[String], jobs: &mut Jobs) -> Result<(), String> {
    if theirs.len() != ours.len() {
        return Err(format!("{command}: {} replies, not {}", ours.len(), theirs.len()));
    }
    for (theirs, ours) in theirs.iter().zip(ours) {
        if let (Some(theirs), Some(ours)) = (theirs.strip_prefix("INSERTED "), ours.strip_prefix("INSERTED ")) {
            jobs.ids.push([theirs.to_owned(), ours.to_owned()]);
            continue;
        }
        let (theirs, ours) = (reading(theirs, 0, jobs), reading(ours, 1, jobs));
        if let (Reading::Document(theirs), Reading::Document(ours)) = (&theirs, &ours) {
            same_document(command, theirs, ours, jobs)?;
        } else if theirs != ours {
            return Err(format!("{command}: {ours:?}, not {theirs:?}"));
        }
    }
    Ok(())
}

/// A reply without what must differ.
#[derive(Debug, PartialEq)]
enum Reading {
    Line(String),
    Document(BTreeMap<String, String>),
    List(Vec<String>),
}

fn reading(reply: &str, side: usize, jobs: &Jobs) -> Reading {
    let (line, rest) = reply.split_once('\n').unwrap_or((reply, ""));
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["OK", _] if rest.lines().skip(1).all(|line| line.starts_with("- ")) => {
            let mut names: Vec<_> = rest.lines().skip(1).map(str::to_owned).collect();
            names.sort();
            Reading::List(names)
        }
        ["OK", _] => {
            let pairs = rest.lines().skip(1).filter_map(|line| line.split_once(": "));
            // Versions before 1.13 have no quotes.
            let pair = |(key, value): (&str, &str)| (key.to_owned(), value.trim_matches('"').to_owned());
            let mut document: BTreeMap<_, _> = pairs.map(pair).collect();
            if let Some(id) = document.get("id").filter(|_| document.contains_key("tube")) {
                let name = jobs.name(id, side);
                document.insert("job".to_owned(), name);
            }
            Reading::Document(document)
        }
        [word @ ("RESERVED" | "FOUND"), id, size] => {
            Reading::Line(format!("{word} {} {size}\n{rest}", jobs.name(id, side)))
        }
        _ => Reading::Line(reply.to_owned()),
    }
}

fn same_document(
    command: &str,
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
    jobs: &Jobs,
) -> Result<(), String> {
    if !theirs.keys().eq(ours.keys()) {
        return Err(format!("{command}: other keys: {ours:?}, not {theirs:?}"));
    }
    let has_moved = ["reserves", "kicks"].iter().any(|key| theirs.get(*key).is_some_and(|count| count != "0"));
    for (key, their) in theirs {
        let our = &ours[key];
        let number = |text: &str| text.parse::<i64>().unwrap_or(0);
        let difference = number(our) - number(their);
        let known = OWN_KEYS.contains(&&**key) || (TIMES.contains(&&**key) && difference.abs() <= 1);
        let meant = (key == "delay" && has_moved && command.starts_with("stats-job"))
            || (key == "releases" && jobs.closed && difference >= 0);
        if their != our && !known && (!meant || jobs.strict) {
            return Err(format!("{command}: {key} is {our}, not {their}"));
        }
    }
    Ok(())
}
