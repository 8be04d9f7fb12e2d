//! One command line.

use crate::number::{self, read_u32, read_u64, whole_u32, whole_u64};
use crate::tube::{Tube, is_of_names};

/// What a client says, without the body of a `put`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// A job; its body follows.
    Put(Put),
    /// Put jobs into this tube from now on.
    Use(Tube<'a>),
    /// Take a job, however long it takes.
    Reserve,
    /// Take a job within so many seconds.
    ReserveWithTimeout(u32),
    /// Take this very job.
    ReserveJob(u64),
    /// Remove a job.
    Delete(u64),
    /// Give a job back.
    Release {
        /// Which.
        id: u64,
        /// Its new priority.
        priority: u32,
        /// Seconds until it is ready.
        delay: u32,
    },
    /// Put a job aside.
    Bury {
        /// Which.
        id: u64,
        /// Its new priority.
        priority: u32,
    },
    /// Ask for more time for a job.
    Touch(u64),
    /// Take jobs from this tube too.
    Watch(Tube<'a>),
    /// Take no more jobs from this tube.
    Ignore(Tube<'a>),
    /// Show a job.
    Peek(u64),
    /// Show the next ready job of the used tube.
    PeekReady,
    /// Show the next delayed job of the used tube.
    PeekDelayed,
    /// Show the next buried job of the used tube.
    PeekBuried,
    /// Make so many buried jobs of the used tube ready, or delayed ones if none is buried.
    Kick(u32),
    /// Make this buried or delayed job ready.
    KickJob(u64),
    /// Tell about the server.
    Stats,
    /// Tell about a job.
    StatsJob(u64),
    /// Tell about a tube.
    StatsTube(Tube<'a>),
    /// Name all tubes.
    ListTubes,
    /// Name the used tube.
    ListTubeUsed,
    /// Name the watched tubes.
    ListTubesWatched,
    /// Let no jobs be reserved from a tube for a while.
    PauseTube {
        /// Which.
        tube: Tube<'a>,
        /// Seconds.
        delay: u32,
    },
    /// Close the connection.
    Quit,
}

/// What a `put` says before the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Lower goes first.
    pub priority: u32,
    /// Seconds until it is ready.
    pub delay: u32,
    /// Seconds that it may be held. Servers take 0 for 1.
    pub ttr: u32,
    /// Bytes of the body, without its `\r\n`.
    pub size: u32,
}

/// Why a line is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// No command begins like this.
    UnknownCommand,
    /// The beginning is that of a command, the rest is not.
    BadFormat,
    /// A `put` with something after it. Servers look at the size first.
    AfterPut(Put),
}

impl<'a> Command<'a> {
    /// Reads a line, without its `\r\n`.
    pub fn read(line: &'a [u8]) -> Result<Self, Mistake> {
        if line.contains(&0) {
            return Err(Mistake::BadFormat);
        }
        if let Some(rest) = line.strip_prefix(b"put ") {
            return Put::read(rest);
        }
        for (word, read) in READERS {
            if let Some(rest) = line.strip_prefix(word.as_bytes()) {
                return read(rest).ok_or(Mistake::BadFormat);
            }
        }
        Err(Mistake::UnknownCommand)
    }

    /// Appends the line, `\r\n` included.
    pub fn write(&self, out: &mut Vec<u8>) {
        let with_numbers = |out: &mut Vec<u8>, word: &str, numbers: &[u64]| {
            out.extend_from_slice(word.as_bytes());
            for &number in numbers {
                out.push(b' ');
                number::write(out, number);
            }
        };
        let with_tube = |out: &mut Vec<u8>, word: &str, tube: Tube<'_>| {
            out.extend_from_slice(word.as_bytes());
            out.push(b' ');
            out.extend_from_slice(tube.as_str().as_bytes());
        };
        match *self {
            Self::Put(Put { priority, delay, ttr, size }) => {
                with_numbers(out, "put", &[priority.into(), delay.into(), ttr.into(), size.into()]);
            }
            Self::Use(tube) => with_tube(out, "use", tube),
            Self::Reserve => with_numbers(out, "reserve", &[]),
            Self::ReserveWithTimeout(seconds) => with_numbers(out, "reserve-with-timeout", &[seconds.into()]),
            Self::ReserveJob(id) => with_numbers(out, "reserve-job", &[id]),
            Self::Delete(id) => with_numbers(out, "delete", &[id]),
            Self::Release { id, priority, delay } => {
                with_numbers(out, "release", &[id, priority.into(), delay.into()]);
            }
            Self::Bury { id, priority } => with_numbers(out, "bury", &[id, priority.into()]),
            Self::Touch(id) => with_numbers(out, "touch", &[id]),
            Self::Watch(tube) => with_tube(out, "watch", tube),
            Self::Ignore(tube) => with_tube(out, "ignore", tube),
            Self::Peek(id) => with_numbers(out, "peek", &[id]),
            Self::PeekReady => with_numbers(out, "peek-ready", &[]),
            Self::PeekDelayed => with_numbers(out, "peek-delayed", &[]),
            Self::PeekBuried => with_numbers(out, "peek-buried", &[]),
            Self::Kick(bound) => with_numbers(out, "kick", &[bound.into()]),
            Self::KickJob(id) => with_numbers(out, "kick-job", &[id]),
            Self::Stats => with_numbers(out, "stats", &[]),
            Self::StatsJob(id) => with_numbers(out, "stats-job", &[id]),
            Self::StatsTube(tube) => with_tube(out, "stats-tube", tube),
            Self::ListTubes => with_numbers(out, "list-tubes", &[]),
            Self::ListTubeUsed => with_numbers(out, "list-tube-used", &[]),
            Self::ListTubesWatched => with_numbers(out, "list-tubes-watched", &[]),
            Self::PauseTube { tube, delay } => {
                with_tube(out, "pause-tube", tube);
                with_numbers(out, "", &[delay.into()]);
            }
            Self::Quit => with_numbers(out, "quit", &[]),
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Put {
    fn read<'a>(rest: &[u8]) -> Result<Command<'a>, Mistake> {
        let numbers = || {
            let (priority, rest) = read_u32(rest)?;
            let (delay, rest) = read_u32(rest)?;
            let (ttr, rest) = read_u32(rest)?;
            let (size, rest) = read_u32(rest)?;
            Some((Self { priority, delay, ttr, size }, rest.is_empty()))
        };
        match numbers() {
            Some((put, true)) => Ok(Command::Put(put)),
            Some((put, false)) => Err(Mistake::AfterPut(put)),
            None => Err(Mistake::BadFormat),
        }
    }

    /// Appends a whole `put`: the line and the body, whose length this writes whatever `size` says.
    pub fn write(&self, body: &[u8], out: &mut Vec<u8>) {
        let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
        Command::Put(Self { size, ..*self }).write(out);
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads what follows the word of a command.
type Reader = for<'a> fn(&'a [u8]) -> Option<Command<'a>>;

/// All commands but `put`, in the order in which beanstalkd looks: `reserve` and `stats` begin others, too.
const READERS: [(&str, Reader); 24] = [
    ("peek ", |rest| whole_u64(rest).map(Command::Peek)),
    ("peek-ready", |rest| alone(rest, Command::PeekReady)),
    ("peek-delayed", |rest| alone(rest, Command::PeekDelayed)),
    ("peek-buried", |rest| alone(rest, Command::PeekBuried)),
    ("reserve-with-timeout ", |rest| read_timeout(rest).map(Command::ReserveWithTimeout)),
    ("reserve-job ", |rest| whole_u64(rest).map(Command::ReserveJob)),
    ("reserve", |rest| alone(rest, Command::Reserve)),
    ("delete ", |rest| whole_u64(rest).map(Command::Delete)),
    ("release ", read_release),
    ("bury ", read_bury),
    ("kick ", |rest| read_kick(rest).map(Command::Kick)),
    ("kick-job ", |rest| whole_u64(rest).map(Command::KickJob)),
    ("touch ", |rest| whole_u64(rest).map(Command::Touch)),
    ("stats-job ", |rest| whole_u64(rest).map(Command::StatsJob)),
    ("stats-tube ", |rest| Tube::read(rest).map(Command::StatsTube)),
    ("stats", |rest| alone(rest, Command::Stats)),
    ("use ", |rest| Tube::read(rest).map(Command::Use)),
    ("watch ", |rest| Tube::read(rest).map(Command::Watch)),
    ("ignore ", |rest| Tube::read(rest).map(Command::Ignore)),
    ("list-tubes-watched", |rest| alone(rest, Command::ListTubesWatched)),
    ("list-tube-used", |rest| alone(rest, Command::ListTubeUsed)),
    ("list-tubes", |rest| alone(rest, Command::ListTubes)),
    ("quit", |_| Some(Command::Quit)),
    ("pause-tube", read_pause),
];

fn alone<'a>(rest: &[u8], command: Command<'a>) -> Option<Command<'a>> {
    rest.is_empty().then_some(command)
}

/// Servers do not look at what follows the number, and take no more than 31 bits.
fn read_timeout(rest: &[u8]) -> Option<u32> {
    read_u32(rest).map(|(seconds, _)| seconds).filter(|&seconds| i32::try_from(seconds).is_ok())
}

/// Servers do not look at what follows the number. More than 32 bits are more than there can be jobs.
fn read_kick(rest: &[u8]) -> Option<u32> {
    read_u64(rest).map(|(bound, _)| u32::try_from(bound).unwrap_or(u32::MAX))
}

fn read_release(rest: &[u8]) -> Option<Command<'_>> {
    let (id, rest) = read_u64(rest)?;
    let (priority, rest) = read_u32(rest)?;
    Some(Command::Release { id, priority, delay: whole_u32(rest)? })
}

fn read_bury(rest: &[u8]) -> Option<Command<'_>> {
    let (id, rest) = read_u64(rest)?;
    Some(Command::Bury { id, priority: whole_u32(rest)? })
}

fn read_pause(rest: &[u8]) -> Option<Command<'_>> {
    let spaces = rest.iter().take_while(|&&byte| byte == b' ').count();
    let rest = &rest[spaces..];
    let (name, rest) = rest.split_at(rest.iter().take_while(|&&byte| is_of_names(byte)).count());
    Some(Command::PauseTube { delay: whole_u32(rest)?, tube: Tube::read(name)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What beanstalkd says to each of these lines, as far as the line alone decides.
    #[test]
    fn lines_are_read_as_beanstalkd_reads_them() {
        let tube = |name| Tube::new(name).unwrap();
        let good = [
            ("put 1 2 3 4", Command::Put(Put { priority: 1, delay: 2, ttr: 3, size: 4 })),
            ("put   1  2 3 4", Command::Put(Put { priority: 1, delay: 2, ttr: 3, size: 4 })),
            ("peek  7", Command::Peek(7)),
            ("reserve-with-timeout 5 and more", Command::ReserveWithTimeout(5)),
            ("kick 10", Command::Kick(10)),
            ("kick 10x", Command::Kick(10)),
            ("kick 4294967296", Command::Kick(u32::MAX)),
            ("quit", Command::Quit),
            ("quitting time", Command::Quit),
            ("pause-tube a 5", Command::PauseTube { tube: tube("a"), delay: 5 }),
            ("pause-tubea  5", Command::PauseTube { tube: tube("a"), delay: 5 }),
            ("list-tubes-watched", Command::ListTubesWatched),
            ("stats-tube $a", Command::StatsTube(tube("$a"))),
        ];
        for (line, command) in good {
            assert_eq!(Command::read(line.as_bytes()), Ok(command), "{line}");
        }
        let put = Put { priority: 1, delay: 2, ttr: 3, size: 4 };
        for line in ["put 1 2 3 4 ", "put 1 2 3 4 5", "put 1 2 3 4x"] {
            assert_eq!(Command::read(line.as_bytes()), Err(Mistake::AfterPut(put)), "{line}");
        }
        let bad = "put |put 1 2 3|put 1 2 3 x|put -1 2 3 4|put 1 2 3 4294967296|reservex|reserve-with-timeout|\
            reserve-with-timeout x|reserve-with-timeout 2147483648|reserve-job|reserve-job x|peek-ready |stats x|\
            stats-tube|list-tubesx|use  a|use -a|use a b|use |watch |kick |kick x|kick -1|delete x|delete 1 |\
            delete 18446744073709551616|release 1 2|release 1 2 3 4|bury 1|bury 1 2 3|touch|pause-tube a|pause-tube -a 1|\
            pause-tube a 1 |list-tube-used x|stats-job";
        for line in bad.split('|').filter(|line| *line != "touch") {
            assert_eq!(Command::read(line.as_bytes()), Err(Mistake::BadFormat), "{line}");
        }
        for line in ["", " put 1 2 3 4", "put", "PUT 1 2 3 4", "touch", "delete", "use", "peek", "kick", "list", "r"] {
            assert_eq!(Command::read(line.as_bytes()), Err(Mistake::UnknownCommand), "{line}");
        }
        assert_eq!(Command::read(b"use a\0"), Err(Mistake::BadFormat));
        assert_eq!(Command::read(b"nonsense\0"), Err(Mistake::BadFormat));
    }
}
