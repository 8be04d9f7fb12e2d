//! `dwell beanstalkd`: the server, started with beanstalkd's own flags.

use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use dwell_core::limits;
use dwell_store_embedded::Durability;

use super::settings::{self, BeanstalkAddress, Mode, Settings, StoreChoice};
use crate::exit::{Code, Exit};

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (beanstalk protocol 1.13)");

/// The largest time between two syncs, in milliseconds.
const LONGEST_SYNC: u64 = 60_000;

/// `dwell beanstalkd`.
pub(crate) fn command() -> Command {
    let about = "Start a server with beanstalkd's own flags: a drop-in for it";
    let value = |name: &'static str, short, value, help| Arg::new(name).short(short).value_name(value).help(help);
    let number = |arg: Arg| arg.value_parser(value_parser!(u64));
    let flag = |name: &'static str, short, help| Arg::new(name).short(short).help(help).action(ArgAction::Count);
    let command = Command::new("beanstalkd")
        .about(about)
        .version(VERSION)
        .disable_version_flag(true)
        .arg(value("dir", 'b', "DIR", "Keep jobs in this directory; without it they are in memory only"))
        .arg(
            number(value(
                "fsync",
                'f',
                "MS",
                "Sync at most once every MS milliseconds; without it, before each answer",
            ))
            .conflicts_with("no_fsync"),
        )
        .arg(flag("no_fsync", 'F', "Never sync: a power cut loses what the system had not written"))
        .arg(value("addr", 'l', "ADDR", "Address to listen on, or unix:/path [default: 127.0.0.1]"))
        .arg(value("port", 'p', "PORT", "Port to listen on [default: 11300]").value_parser(value_parser!(u16)))
        .arg(value("user", 'u', "USER", "User to run as: start the server as that user"))
        .arg(number(value("size", 'z', "BYTES", "Largest job, up to 16777216 [default: 65535]")))
        .arg(number(value("segment", 's', "BYTES", "Accepted and without effect: the journal has its own sizes")))
        .arg(flag("compact", 'c', "Accepted and without effect"))
        .arg(flag("no_compact", 'n', "Accepted and without effect"))
        .arg(flag("verbose", 'V', "Log more; twice for everything"))
        .arg(Arg::new("version").short('v').help("Show the version").action(ArgAction::Version));
    settings::arguments(command, |key| key.in_beanstalkd).after_help(
        "HTTP is served only if --listen says where. A directory with a binlog of beanstalkd in it is refused:\n\
         see docs/guides/beanstalk.md for moving jobs over.",
    )
}

/// Runs `dwell beanstalkd`.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Exit> {
    let settings = settings::read(matches)?;
    // HTTP is what a server has unless it is told otherwise; this one has beanstalk.
    let listen = matches.contains_id("listen").then(|| settings.listen.clone()).flatten();
    refuse_socket_activation()?;
    if let Some(user) = matches.get_one::<String>("user") {
        require_user(user)?;
    }
    for (flag, given) in [
        ("-s", matches.contains_id("segment")),
        ("-c", is_set(matches, "compact")),
        ("-n", is_set(matches, "no_compact")),
    ] {
        if given {
            drop(writeln!(stderr(), "dwell: {flag} has no effect: the journal looks after its own files"));
        }
    }
    let log = match matches.get_count("verbose") {
        0 => settings.log.clone(),
        1 => "debug".to_owned(),
        _ => "trace".to_owned(),
    };
    let settings = Settings {
        listen,
        beanstalk: Some(address(matches)),
        store: store(matches)?,
        durability: durability(matches)?,
        max_body: size(matches)?,
        log,
        mode: Mode::Beanstalkd,
        ..settings
    };
    super::start(settings, super::again(matches))
}

fn is_set(matches: &ArgMatches, flag: &str) -> bool {
    matches.get_count(flag) > 0
}

fn wrong(message: impl std::fmt::Display) -> Exit {
    Exit::new(Code::BadConfiguration, message)
}

fn address(matches: &ArgMatches) -> BeanstalkAddress {
    let host = matches.get_one::<String>("addr").map_or("127.0.0.1", String::as_str);
    if let Some(path) = host.strip_prefix("unix:") {
        return BeanstalkAddress::Unix(PathBuf::from(path));
    }
    let port = matches.get_one::<u16>("port").copied().unwrap_or(11_300);
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    BeanstalkAddress::Tcp(if is_bare_ipv6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

fn store(matches: &ArgMatches) -> Result<StoreChoice, Exit> {
    let Some(directory) = matches.get_one::<String>("dir") else { return Ok(StoreChoice::Memory) };
    if has_binlog(Path::new(directory)) {
        return Err(wrong(format!(
            "-b {directory}: beanstalkd has left its binlog there, which Dwell does not read.\n       \
             Start beanstalkd on it once more and let workers finish its jobs, or move them over \
             (docs/guides/beanstalk.md); then give an empty directory"
        )));
    }
    Ok(StoreChoice::Directory(PathBuf::from(directory)))
}

fn has_binlog(directory: &Path) -> bool {
    let is_binlog = |name: &str| {
        name.strip_prefix("binlog.").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    std::fs::read_dir(directory)
        .is_ok_and(|files| files.flatten().any(|file| file.file_name().to_str().is_some_and(is_binlog)))
}

fn durability(matches: &ArgMatches) -> Result<Durability, Exit> {
    if is_set(matches, "no_fsync") {
        return Ok(Durability::None);
    }
    match matches.get_one::<u64>("fsync").copied() {
        None | Some(0) => Ok(Durability::Sync),
        Some(millis) if millis <= LONGEST_SYNC => Ok(Durability::Interval(Duration::from_millis(millis))),
        Some(millis) => Err(wrong(format!("-f {millis}: at most {LONGEST_SYNC} milliseconds; -F never syncs"))),
    }
}

fn size(matches: &ArgMatches) -> Result<usize, Exit> {
    let size = matches.get_one::<u64>("size").copied().unwrap_or(65_535);
    let fits = usize::try_from(size).ok().filter(|size| (1..=limits::MAX_BODY).contains(size));
    fits.ok_or_else(|| wrong(format!("-z {size}: from 1 to {} bytes", limits::MAX_BODY)))
}

/// Dwell does not become another user: it says how to start it as one.
fn require_user(user: &str) -> Result<(), Exit> {
    let mine = rustix::process::geteuid().as_raw().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_me = passwd.lines().any(|line| {
        let mut fields = line.split(':');
        fields.next() == Some(user) && fields.nth(1) == Some(mine.as_str())
    });
    if is_me {
        return Ok(());
    }
    Err(wrong(format!(
        "-u {user}: Dwell does not change its user. Start it as {user}: User={user} in a systemd unit, or\n\n         \
         runuser -u {user} -- dwell beanstalkd …"
    )))
}

fn refuse_socket_activation() -> Result<(), Exit> {
    let mine = std::process::id().to_string();
    if std::env::var("LISTEN_PID").is_ok_and(|pid| pid == mine) {
        return Err(wrong(
            "sockets handed over by systemd are not supported: remove the .socket unit, and give -l and -p",
        ));
    }
    Ok(())
}
