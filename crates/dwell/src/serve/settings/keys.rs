//! The table of keys.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dwell_core::limits;
use dwell_server::Token;
use dwell_store_embedded::Durability;
use dwell_store_redis::{Address, MAX_PARTITIONS};

use super::sources::Given;
use super::{BeanstalkAddress, LogFormat, Settings, StoreChoice, otlp, tokens};

/// One thing that a server can be told.
pub(in crate::serve) struct Key {
    /// Its name in the file; the flag has dashes, the variable capitals.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    /// Whether `dwell dev` can be told it too.
    pub(in crate::serve) in_dev: bool,
    /// Whether `dwell beanstalkd` can be told it beside its own flags.
    pub(in crate::serve) in_beanstalkd: bool,
    /// Puts a value in its place, or says what is wrong with it.
    pub(super) set: fn(&mut Settings, &Given) -> Result<(), String>,
}

impl Key {
    /// Why a key that was given does nothing beside the others, if so.
    pub(super) fn is_idle(&self, settings: &Settings) -> Option<&'static str> {
        let on_redis = matches!(settings.store, StoreChoice::Redis(_));
        match self.name {
            "redis_prefix" | "redis_partitions" | "redis_wait" if !on_redis => {
                Some("is for a store in Redis; say --store redis://HOST as well, or leave it out")
            }
            "durability" | "memory" | "accept_clock" if on_redis => {
                Some("does nothing with a store in Redis, which has settings of its own; leave it out")
            }
            "otlp_ratio" if settings.otlp_endpoint.is_none() => {
                Some("does nothing without a collector; say --otlp-endpoint URL as well, or leave it out")
            }
            _ => None,
        }
    }
}

/// How a key is given.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    One(&'static str),
    Many(&'static str),
    Flag,
}

/// Every key. Those that say the same thing in two ways are in [`SAME`].
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "listen",
        help: "Address to listen on; port 0 takes any free one [default: 127.0.0.1:3935]",
        kind: Kind::One("ADDRESS"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            let address = host_and_port(given.text()).ok_or("is not host:port; try \"127.0.0.1:3935\"")?;
            settings.listen = Some(address);
            Ok(())
        },
    },
    Key {
        name: "beanstalk",
        help: "Address to serve the beanstalk protocol on: 127.0.0.1:11300 or unix:/path [default: off]",
        kind: Kind::One("ADDRESS"),
        in_dev: true,
        in_beanstalkd: false,
        set: |settings, given| {
            const WRONG: &str = "is neither host:port nor unix:/path; try \"127.0.0.1:11300\"";
            settings.beanstalk = Some(match given.text().strip_prefix("unix:") {
                Some("") => return Err(WRONG.to_owned()),
                Some(path) => BeanstalkAddress::Unix(PathBuf::from(path)),
                None => BeanstalkAddress::Tcp(host_and_port(given.text()).ok_or(WRONG)?),
            });
            Ok(())
        },
    },
    Key {
        name: "beanstalk_insecure",
        help: "Serve the beanstalk protocol, which knows no credentials, to other machines too",
        kind: Kind::Flag,
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.beanstalk_insecure = given.flag()?;
            Ok(())
        },
    },
    Key {
        name: "store",
        help: "Where jobs are kept: file:DIR, memory:, redis://HOST:PORT, redis-cluster://HOST:PORT,HOST:PORT or \
               redis+sentinel://HOST:PORT,HOST:PORT/MASTER [default: file:./dwell-data]",
        kind: Kind::One("STORE"),
        in_dev: false,
        in_beanstalkd: false,
        set: |settings, given| {
            settings.store = match given.text().split_once(':') {
                Some(("memory", "")) => StoreChoice::Memory,
                Some(("file", directory)) if !directory.is_empty() => StoreChoice::Directory(PathBuf::from(directory)),
                Some((scheme, _)) if scheme.starts_with("redis") => {
                    Address::parse(given.text()).map_err(|error| error.to_string())?;
                    StoreChoice::Redis(given.text().to_owned())
                }
                _ => {
                    return Err(
                        "is no store; try \"file:./dwell-data\", \"memory:\" or \"redis://127.0.0.1\"".to_owned()
                    );
                }
            };
            Ok(())
        },
    },
    Key {
        name: "data_dir",
        help: "Directory that jobs are kept in; the same as --store file:DIR",
        kind: Kind::One("DIR"),
        in_dev: false,
        in_beanstalkd: false,
        set: |settings, given| {
            if given.text().is_empty() {
                return Err("is empty; name a directory".to_owned());
            }
            settings.store = StoreChoice::Directory(PathBuf::from(given.text()));
            Ok(())
        },
    },
    Key {
        name: "redis_prefix",
        help: "What all keys in Redis begin with [default: dwell]",
        kind: Kind::One("TEXT"),
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            if given.text().is_empty() || given.text().contains(['{', '}']) {
                return Err("must not be empty nor have '{' or '}' in it".to_owned());
            }
            given.text().clone_into(&mut settings.redis_prefix);
            Ok(())
        },
    },
    Key {
        name: "redis_partitions",
        help: "Parts that the store in Redis has, each in one slot; fixed at the first start, the same on all servers \
               [default: 64]",
        kind: Kind::One("NUMBER"),
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            let number = given.text().parse().ok().filter(|number| (1..=MAX_PARTITIONS).contains(number));
            settings.redis_partitions = number.ok_or("is not a whole number from 1 to 256")?;
            Ok(())
        },
    },
    Key {
        name: "redis_wait",
        help: "Replicas that must confirm a change before it is answered [default: 0]",
        kind: Kind::One("NUMBER"),
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            let number = given.text().parse().ok().filter(|number| (0..=100).contains(number));
            settings.redis_wait = number.ok_or("is not a whole number from 0 to 100")?;
            Ok(())
        },
    },
    Key {
        name: "durability",
        help: "What an answered success survives: sync (a power cut), interval:50ms (a crash; a power cut loses that much) \
               or none (a crash) [default: sync]",
        kind: Kind::One("MODE"),
        in_dev: false,
        in_beanstalkd: false,
        set: |settings, given| {
            settings.durability = durability(given.text())?;
            Ok(())
        },
    },
    Key {
        name: "token",
        help: "Token that requests must show (repeatable); without one only this machine is served",
        kind: Kind::Many("TOKEN"),
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.plain_tokens = plain_tokens(given.texts.iter().map(String::as_str))?;
            Ok(())
        },
    },
    Key {
        name: "token_file",
        help: "File with tokens, one a line",
        kind: Kind::One("FILE"),
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            let text =
                std::fs::read_to_string(Path::new(given.text())).map_err(|error| format!("cannot be read: {error}"))?;
            let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            if lines.is_empty() {
                return Err("has no token in it".to_owned());
            }
            settings.plain_tokens = plain_tokens(lines)?;
            Ok(())
        },
    },
    Key {
        name: "token_rate",
        help: "Requests a second that each token may send, and as many at once [default: no limit]",
        kind: Kind::One("NUMBER"),
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.token_rate = Some(tokens::parse_rate(given.text()).ok_or(tokens::RATE)?);
            Ok(())
        },
    },
    Key {
        name: "tls_cert",
        help: "Serve HTTPS with this certificate chain, in PEM; SIGHUP reads it again",
        kind: Kind::One("FILE"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.tls_files.certificate = Some(PathBuf::from(given.text()));
            Ok(())
        },
    },
    Key {
        name: "tls_key",
        help: "The private key of --tls-cert, in PEM",
        kind: Kind::One("FILE"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.tls_files.key = Some(PathBuf::from(given.text()));
            Ok(())
        },
    },
    Key {
        name: "beanstalk_client_ca",
        help: "Serve the beanstalk protocol over TLS, to clients with a certificate that one in this PEM file has signed",
        kind: Kind::One("FILE"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.tls_files.clients = Some(PathBuf::from(given.text()));
            Ok(())
        },
    },
    Key {
        name: "memory",
        help: "Memory that jobs may take; those that wait for long go to disk. With memory: puts past it are refused \
               [default: 256MiB; 1GiB with memory:]",
        kind: Kind::One("SIZE"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.memory = Some(size(given.text(), 1 << 20, usize::MAX)?);
            Ok(())
        },
    },
    Key {
        name: "max_body",
        help: "Largest body of a job, up to 16MiB [default: 1MiB]",
        kind: Kind::One("SIZE"),
        in_dev: true,
        in_beanstalkd: false,
        set: |settings, given| {
            settings.max_body = size(given.text(), 1, limits::MAX_BODY)?;
            Ok(())
        },
    },
    Key {
        name: "max_connections",
        help: "Connections at once; more are refused [default: 16384]",
        kind: Kind::One("NUMBER"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            let number = given.text().parse().ok().filter(|number| (1..=1_000_000).contains(number));
            settings.max_connections = number.ok_or("is not a whole number from 1 to 1000000")?;
            Ok(())
        },
    },
    Key {
        name: "log",
        help: "How much to log: error, warn, info, debug, trace [default: info]",
        kind: Kind::One("LEVEL"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            given.text().clone_into(&mut settings.log);
            Ok(())
        },
    },
    Key {
        name: "log_format",
        help: "How logs look: human, json, or auto: human on a terminal [default: auto]",
        kind: Kind::One("FORMAT"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.log_format = match given.text() {
                "auto" => LogFormat::Auto,
                "human" => LogFormat::Human,
                "json" => LogFormat::Json,
                _ => return Err("is none of auto, human, json".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "allow_private_targets",
        help: "Push jobs to loopback, RFC 1918 and fc00::/7 addresses too",
        kind: Kind::Flag,
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.delivery.guard.private = given.flag()?;
            Ok(())
        },
    },
    Key {
        name: "target_networks",
        help: "Network that jobs may be pushed to although it is private, such as 10.1.0.0/16 (repeatable)",
        kind: Kind::Many("NETWORK"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            let read = |text: &str| text.parse().map_err(|error| format!("\"{text}\" {error}"));
            settings.delivery.guard.networks = given.parts().map(read).collect::<Result<_, _>>()?;
            Ok(())
        },
    },
    Key {
        name: "target_ports",
        help: "Only port that jobs may be pushed to (repeatable) [default: all]",
        kind: Kind::Many("PORT"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            let read = |text: &str| match text.parse() {
                Ok(port) if port > 0 => Ok(port),
                _ => Err(format!("\"{text}\" is not a port from 1 to 65535")),
            };
            settings.delivery.guard.ports = given.parts().map(read).collect::<Result<_, _>>()?;
            Ok(())
        },
    },
    Key {
        name: "cloud_events",
        help: "Give pushed jobs the headers of a CloudEvent too",
        kind: Kind::Flag,
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.delivery.cloud_events = given.flag()?;
            Ok(())
        },
    },
    Key {
        name: "otlp_endpoint",
        help: "Collector that spans are sent to, by OTLP over HTTP, such as http://127.0.0.1:4318 [default: none]",
        kind: Kind::One("URL"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.otlp_endpoint = Some(otlp::Endpoint::parse(given.text())?);
            Ok(())
        },
    },
    Key {
        name: "otlp_ratio",
        help: "Share of requests and deliveries of no trace that have a span, from 0 to 1 [default: 1]",
        kind: Kind::One("SHARE"),
        in_dev: true,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.otlp_ratio = otlp::ratio(given.text())?;
            Ok(())
        },
    },
    Key {
        name: "dev_clock",
        help: "Stop the clock, for tests: time moves only by POST /v1/dev/clock",
        kind: Kind::Flag,
        in_dev: false,
        in_beanstalkd: false,
        set: |settings, given| {
            settings.dev_clock = given.flag()?;
            Ok(())
        },
    },
    Key {
        name: "accept_clock",
        help: "Start although the clock is more than an hour behind what the data has seen",
        kind: Kind::Flag,
        in_dev: false,
        in_beanstalkd: true,
        set: |settings, given| {
            settings.accept_clock = given.flag()?;
            Ok(())
        },
    },
    Key {
        name: "config",
        help: "File with any of these settings, in TOML",
        kind: Kind::One("FILE"),
        in_dev: false,
        in_beanstalkd: false,
        set: |_, _| Ok(()),
    },
];

/// Keys that say the same thing in two ways: the one with the stronger source holds, two of one source are a mistake.
pub(super) const SAME: &[[&str; 2]] = &[["store", "data_dir"], ["token", "token_file"]];

fn host_and_port(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    (!host.is_empty() && port.parse::<u16>().is_ok()).then(|| text.to_owned())
}

fn durability(text: &str) -> Result<Durability, String> {
    const WRONG: &str = "is none of sync, interval:50ms, none";
    match text.split_once(':') {
        None if text == "sync" => Ok(Durability::Sync),
        None if text == "none" => Ok(Durability::None),
        Some(("interval", length)) => {
            let length = dwell_wire::Duration::parse(length).map_err(|_| WRONG)?.0;
            if (1..=60_000).contains(&length) {
                Ok(Durability::Interval(Duration::from_millis(length)))
            } else {
                Err("must have an interval from 1ms to 1m".to_owned())
            }
        }
        _ => Err(WRONG.to_owned()),
    }
}

/// Tokens that open everything, called `token-1` and so on. The same one twice is one.
fn plain_tokens<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Token>, String> {
    let mut tokens: Vec<Token> = Vec::new();
    for text in texts {
        tokens::check_secret(text).map_err(|reason| format!("has a token that {reason}"))?;
        if !tokens.iter().any(|token| token.secret == text) {
            tokens.push(Token::for_everything(format!("token-{}", tokens.len() + 1), text));
        }
    }
    Ok(tokens)
}

/// A number of bytes: `1048576`, `512KiB`, `16MiB`, `1GiB`.
fn size(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err("is not a size; try 512KiB, 16MiB or 1GiB".to_owned()),
    };
    let number: usize = number.parse().map_err(|_| "is not a size; try 512KiB, 16MiB or 1GiB")?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| (least..=most).contains(bytes));
    bytes.ok_or_else(|| {
        if most == usize::MAX {
            format!("must be at least {least} bytes")
        } else {
            format!("must be from {least} to {most} bytes")
        }
    })
}
