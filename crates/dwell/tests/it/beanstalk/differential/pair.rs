//! The two servers, and what is said to both.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::compare::{self, Jobs};
use super::random::Random;
use crate::beanstalk::talk::{Talk, address};
use crate::server::{dwell, start_any, temporary, until};

const TUBES: [&str; 4] = ["default", "t1", "t2", "t3"];

/// How often, and after how long each, beanstalkd is reminded that someone waits.
const REMINDERS: usize = 100;
const A_WHILE: Duration = Duration::from_millis(200);

/// Lines that are no commands, or not quite.
const NONSENSE: [&str; 24] = [
    "",
    "bogus",
    "put",
    "put 1 2 3",
    "put 1 2 3 x",
    "put 1 2 3 4294967296",
    "reserve x",
    "reserve-with-timeout",
    "reserve-job x",
    "delete",
    "delete x",
    "delete 1 ",
    "delete 18446744073709551616",
    "release 1 2",
    "bury 1",
    "touch 1x",
    "use",
    "use  t1",
    "use -t",
    "watch t,1",
    "stats x",
    "kick x",
    "pause-tube t1",
    "list-tubesx",
];

/// A real beanstalkd and a Dwell, and the connections to both.
pub(super) struct Pair {
    servers: [(Child, String); 2],
    talks: BTreeMap<char, [Talk; 2]>,
    jobs: Jobs,
    /// Priorities and delays are never used twice: order is not what is compared.
    unique: u64,
    /// What was said, and what came back.
    pub(super) history: Vec<String>,
    _directory: TempDir,
}

impl Drop for Pair {
    fn drop(&mut self) {
        for (server, _) in &mut self.servers {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

impl Pair {
    pub(super) fn start() -> Self {
        let directory = temporary();
        let path = directory.path().join("b.sock");
        let theirs = format!("unix:{}", path.display());
        let server = Command::new("beanstalkd").args(["-l", &theirs]).stderr(Stdio::null()).spawn();
        let server =
            server.unwrap_or_else(|error| panic!("beanstalkd: {error}; on Debian: apt-get install beanstalkd"));
        let (ours, banner) = start_any(dwell(&["beanstalkd", "-p", "0"]).stderr(Stdio::null()));
        until("beanstalkd is up", || std::os::unix::net::UnixStream::connect(&path).is_ok());
        Self {
            servers: [(server, theirs), (ours, address(&banner))],
            talks: BTreeMap::new(),
            jobs: Jobs::default(),
            unique: 0,
            history: Vec::new(),
            _directory: directory,
        }
    }

    /// Says a line on a connection: `A put 0 0 60 1|body`, `B reserve`. Ids are the numbers of jobs in the order they
    /// were put. Each line has one reply.
    pub(super) fn say(&mut self, line: &str) -> Result<(), String> {
        self.exchange(line, |talk, _| vec![talk.reply()], None)
    }

    /// The same with as many replies as there may be: a question that is sent right behind it ends them.
    fn say_anything(&mut self, line: &str) -> Result<(), String> {
        self.exchange(line, replies, Some("list-tube-used\r\n"))
    }

    fn exchange(
        &mut self,
        line: &str,
        read: impl Fn(&mut Talk, &str) -> Vec<String>,
        question: Option<&str>,
    ) -> Result<(), String> {
        let (who, line) = line.split_at(1);
        let (who, line) = (who.chars().next().unwrap(), line.trim_start());
        if line == "close" {
            self.close(who);
            return Ok(());
        }
        let addresses = self.servers.each_ref().map(|(_, address)| address.clone());
        let talks = self.talks.entry(who).or_insert_with(|| addresses.map(|address| Talk::at(&address)));
        let (command, body) = line.split_once('|').map_or((line, None), |(command, body)| (command, Some(body)));
        for (side, talk) in talks.iter_mut().enumerate() {
            let command = self.jobs.spell(command, side);
            talk.send(body.map_or(format!("{command}\r\n"), |body| format!("{command}\r\n{body}\r\n")));
            talk.send(question.unwrap_or_default());
        }
        remind(&mut self.talks, who);
        let [theirs, ours] = self.talks.get_mut(&who).unwrap().each_mut().map(|talk| read(talk, command));
        self.history.push(format!("{who} {line}\n    theirs {theirs:?}\n    ours   {ours:?}"));
        compare::same(command, &theirs, &ours, &mut self.jobs)
    }

    /// From now on known differences are differences.
    pub(super) fn be_strict(&mut self) {
        self.jobs.strict = true;
    }

    /// Closes a connection on both sides, and waits until both servers know.
    fn close(&mut self, who: char) {
        self.history.push(format!("{who} closes"));
        self.talks.remove(&who);
        let left = (self.talks.len() + 1).to_string();
        for (_, address) in &self.servers {
            let mut talk = Talk::at(address);
            until("the connection is closed", || talk.document("stats")["current-connections"] == left);
        }
        // The connections that asked must be gone, too, before anything counts connections.
        for (_, address) in &self.servers {
            let left = self.talks.len();
            let Some(talks) = self.talks.values_mut().next() else { continue };
            let side = usize::from(!address.starts_with("unix:"));
            until("the look is over", || talks[side].document("stats")["current-connections"] == left.to_string());
        }
        self.jobs.closed();
    }

    /// Says something at random.
    pub(super) fn step(&mut self, random: &mut Random) -> Result<(), String> {
        if self.talks.is_empty() {
            // One connection holds all tubes: what becomes of tubes that nobody has is another matter.
            for tube in TUBES {
                self.say(&format!("Z watch {tube}"))?;
            }
        }
        self.unique += 1;
        let (who, unique) = (random.one_of(&["A", "B", "C"]), self.unique);
        let (tube, job) = (random.one_of(&TUBES), self.jobs.any(random));
        let priority = random.below(4_000) * 1_000 + unique;
        let delay = if random.below(3) == 0 { 1_000 + unique } else { 0 };
        let command = match random.below(30) {
            0..=5 => format!("put {priority} {delay} {} 3|abc", 100 + unique % 7),
            6..=9 => "reserve-with-timeout 0".to_owned(),
            10 => format!("reserve-job {job}"),
            11..=12 => format!("delete {job}"),
            13 => format!("release {job} {priority} {delay}"),
            14 => format!("bury {job} {priority}"),
            15 => format!("touch {job}"),
            16 => format!("peek {job}"),
            17 => random.one_of(&["peek-ready", "peek-delayed", "list-tube-used", "list-tubes-watched"]).to_owned(),
            18 => random.one_of(&["kick 1000", "kick 0"]).to_owned(),
            19 => format!("kick-job {job}"),
            20..=21 => format!("use {tube}"),
            22 => format!("watch {tube}"),
            23 => format!("ignore {tube}"),
            24 => format!("stats-job {job}"),
            25 => format!("stats-tube {tube}"),
            26 => random.one_of(&["stats", "list-tubes"]).to_owned(),
            27 => format!("pause-tube {tube} {}", random.one_of(&["0", "0", "1000"])),
            28 => random.one_of(&NONSENSE).to_owned(),
            _ => match random.below(4) {
                0 => format!("put 1 0 60 2|{}", random.one_of(&["abcdef", "abcd\r\nbogus"])),
                1 => format!("put 1 0 60 70000|{}", "y".repeat(70_000)),
                2 => format!("{} {}", random.one_of(&["use", "peek"]), "0".repeat(300)),
                _ => "close".to_owned(),
            },
        };
        self.say_anything(&format!("{who} {command}"))
    }
}

/// Waits until beanstalkd begins to answer. Meanwhile its other connections say something now and then: a beanstalkd
/// that looks at a job in the very microsecond in which its time is over (`conn_timeout` of 1.12: `>=`) leaves it with its
/// holder, and looks again only when that one says something. It does so with one job in ten.
fn remind(talks: &mut BTreeMap<char, [Talk; 2]>, who: char) {
    for _ in 0..REMINDERS {
        if talks.get_mut(&who).unwrap()[0].hears_within(A_WHILE) {
            return;
        }
        for (_, [theirs, _]) in talks.iter_mut().filter(|(other, _)| **other != who) {
            theirs.ask("list-tube-used");
        }
    }
}

/// All replies to a command, up to that of the question that ends them.
fn replies(talk: &mut Talk, command: &str) -> Vec<String> {
    let is_end = |reply: &str| reply.starts_with("USING ");
    let mut replies = vec![talk.reply()];
    let is_use = command.starts_with("use ") || command == "list-tube-used";
    if is_use && is_end(&replies[0]) {
        replies.push(talk.reply());
    }
    while !is_end(replies.last().unwrap()) {
        replies.push(talk.reply());
    }
    replies
}
