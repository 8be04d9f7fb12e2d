//! What a server can be told: one table of keys, each of which is a flag, an environment variable and a key of the
//! configuration file.

mod file;
mod keys;
mod sources;
mod tokens;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use dwell_core::limits;
use dwell_server::tls::BadTls;
use dwell_server::{DeliveryConfig, Tls, Token, Tokens};
use dwell_store_embedded::Durability;

use self::keys::{KEYS, Key, Kind};
use super::otlp;
use crate::exit::{Code, Exit};

/// What a server was told.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Where HTTP is served, if it is.
    pub(super) listen: Option<String>,
    /// Where the beanstalk protocol is served, if it is.
    pub(super) beanstalk: Option<BeanstalkAddress>,
    pub(super) beanstalk_insecure: bool,
    pub(super) store: StoreChoice,
    pub(super) redis_prefix: String,
    pub(super) redis_partitions: u16,
    pub(super) redis_wait: u32,
    pub(super) durability: Durability,
    pub(super) tokens: Tokens,
    /// Those of `token` and `token_file`, which open everything.
    pub(super) plain_tokens: Vec<Token>,
    /// Requests a second of each token that does not say otherwise.
    pub(super) token_rate: Option<NonZeroU32>,
    /// The certificate that HTTP is served with, if over TLS.
    pub(super) tls: Option<Tls>,
    /// The same for the beanstalk protocol, and which clients it knows.
    pub(super) beanstalk_tls: Option<Tls>,
    pub(super) tls_files: TlsFiles,
    pub(super) max_body: usize,
    pub(super) max_connections: usize,
    pub(super) memory: Option<usize>,
    pub(super) log: String,
    pub(super) log_format: LogFormat,
    pub(super) delivery: DeliveryConfig,
    /// Where spans go, if they are made.
    pub(super) otlp_endpoint: Option<otlp::Endpoint>,
    pub(super) otlp_ratio: f64,
    pub(super) dev_clock: bool,
    pub(super) accept_clock: bool,
    pub(super) mode: Mode,
}

/// Files in PEM.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    clients: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads them: what HTTP and the beanstalk protocol are served with.
    fn open(&self) -> Result<(Option<Tls>, Option<Tls>), String> {
        let wrong = |error: BadTls| error.to_string();
        let (certificate, key): (&Path, &Path) = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) if self.clients.is_none() => return Ok((None, None)),
            (None, None) => return Err("beanstalk_client_ca needs tls_cert and tls_key".to_owned()),
            (Some(_), None) => return Err("tls_cert needs tls_key, its private key".to_owned()),
            (None, Some(_)) => return Err("tls_key needs tls_cert, its certificate".to_owned()),
        };
        let http = Tls::for_http(certificate, key).map_err(wrong)?;
        let clients = self.clients.as_ref();
        let beanstalk = clients.map(|clients| Tls::for_known_clients(certificate, key, clients)).transpose();
        Ok((Some(http), beanstalk.map_err(wrong)?))
    }
}

/// How the server was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// `dwell serve`.
    Serve,
    /// `dwell dev`.
    Dev,
    /// `dwell beanstalkd`.
    Beanstalkd,
}

/// Where jobs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreChoice {
    Directory(PathBuf),
    Memory,
    /// An address of Redis that reads well.
    Redis(String),
}

/// Where the beanstalk protocol is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BeanstalkAddress {
    /// Host and port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
    /// The usual port of this machine; another one if that is taken.
    AnyOfThisMachine,
}

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFormat {
    Auto,
    Human,
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Some("127.0.0.1:3935".to_owned()),
            beanstalk: None,
            beanstalk_insecure: false,
            store: StoreChoice::Directory(PathBuf::from("./dwell-data")),
            redis_prefix: "dwell".to_owned(),
            redis_partitions: dwell_store_redis::DEFAULT_PARTITIONS,
            redis_wait: 0,
            durability: Durability::Sync,
            tokens: Tokens::default(),
            plain_tokens: Vec::new(),
            token_rate: None,
            tls: None,
            beanstalk_tls: None,
            tls_files: TlsFiles::default(),
            max_body: limits::DEFAULT_MAX_BODY,
            max_connections: 16_384,
            memory: None,
            log: "info".to_owned(),
            log_format: LogFormat::Auto,
            delivery: DeliveryConfig::default(),
            otlp_endpoint: None,
            otlp_ratio: 1.0,
            dev_clock: false,
            accept_clock: false,
            mode: Mode::Serve,
        }
    }
}

/// Adds the flags of all keys that are `wanted`.
pub(super) fn arguments(command: Command, wanted: impl Fn(&Key) -> bool) -> Command {
    KEYS.iter().filter(|key| wanted(key)).fold(command, |command, key| command.arg(argument(key)))
}

fn argument(key: &'static Key) -> Arg {
    let arg =
        Arg::new(key.name).long(key.name.replace('_', "-")).help(key.help).env(variable(key)).hide_env_values(true);
    match key.kind {
        Kind::One(value) => arg.value_name(value),
        Kind::Many(value) => arg.value_name(value).action(ArgAction::Append),
        Kind::Flag => arg.action(ArgAction::SetTrue).value_parser(clap::builder::BoolishValueParser::new()),
    }
}

/// The environment variable of a key.
fn variable(key: &Key) -> String {
    format!("DWELL_{}", key.name.to_uppercase())
}

/// Reads flags, environment and file; everything that is wrong is said at once.
pub(super) fn read(matches: &ArgMatches) -> Result<Settings, Exit> {
    let mut mistakes = Vec::new();
    let (given, scoped) = sources::gather(matches, &mut mistakes);
    let mut settings = Settings::default();
    for (key, value) in &given {
        if let Err(reason) = (key.set)(&mut settings, value) {
            mistakes.push(value.origin.explain(&reason));
        }
    }
    let rate = settings.token_rate;
    let tokens = settings.plain_tokens.iter().cloned().chain(scoped);
    match Tokens::new(tokens.map(|token| Token { rate: token.rate.or(rate), ..token }).collect()) {
        Ok(tokens) => settings.tokens = tokens,
        Err(error) => mistakes.push(error.to_string()),
    }
    match settings.tls_files.open() {
        Ok((http, beanstalk)) => (settings.tls, settings.beanstalk_tls) = (http, beanstalk),
        Err(reason) => mistakes.push(reason),
    }
    for (key, value) in &given {
        if let Some(reason) = key.is_idle(&settings) {
            mistakes.push(value.origin.explain(reason));
        }
    }
    if mistakes.is_empty() {
        return Ok(settings);
    }
    let count = if mistakes.len() == 1 { "a mistake".to_owned() } else { format!("{} mistakes", mistakes.len()) };
    Err(Exit::new(Code::BadConfiguration, format!("{count} in the configuration\n\n{}", mistakes.join("\n\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_docs() {
        let docs = include_str!("../../../../docs/running.md");
        for key in KEYS.iter().filter(|key| key.name != "config") {
            assert!(docs.contains(&format!("| `{}` |", key.name)), "docs/running.md does not tell of {}", key.name);
        }
        let docs = include_str!("../../../../docs/security.md");
        for field in tokens::FIELDS {
            assert!(docs.contains(&format!("| `{field}` |")), "docs/security.md does not tell of {field}");
        }
    }
}
