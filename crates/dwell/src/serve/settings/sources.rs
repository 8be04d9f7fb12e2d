//! Where settings come from: a flag beats the environment, which beats the file.

use clap::ArgMatches;
use clap::parser::ValueSource;
use dwell_server::Token;

use super::file;
use super::keys::{KEYS, Key, Kind, SAME};
use super::variable;

/// A value, and where it was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) texts: Vec<String>,
    pub(super) origin: Origin,
}

/// Where a value was given, strongest last.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// The configuration file, with the place to show.
    File(file::Place),
    /// An environment variable.
    Variable(String),
    /// A flag.
    Flag(String),
}

impl Given {
    /// The one value of a key that has one.
    pub(super) fn text(&self) -> &str {
        self.texts.first().map_or("", String::as_str)
    }

    /// All values of a key that has several; one text may hold some, with commas between them.
    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|part| !part.is_empty())
    }

    pub(super) fn flag(&self) -> Result<bool, String> {
        match self.text() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("is neither true nor false".to_owned()),
        }
    }
}

impl Origin {
    fn strength(&self) -> u8 {
        match self {
            Self::File(_) => 0,
            Self::Variable(_) => 1,
            Self::Flag(_) => 2,
        }
    }

    /// Says what is wrong with what was given here.
    pub(super) fn explain(&self, reason: &str) -> String {
        match self {
            Self::File(place) => place.explain(reason),
            Self::Variable(name) => format!("{name} in the environment: {reason}"),
            Self::Flag(name) => format!("{name} {reason}"),
        }
    }

    fn name(&self, key: &Key) -> String {
        match self {
            Self::File(_) => key.name.to_owned(),
            Self::Variable(name) | Self::Flag(name) => name.split(' ').next().unwrap_or(name).to_owned(),
        }
    }
}

/// Every key that was given, by its strongest source; and the tokens that the file describes.
pub(super) fn gather(matches: &ArgMatches, mistakes: &mut Vec<String>) -> (Vec<(&'static Key, Given)>, Vec<Token>) {
    let mut given: Vec<(&Key, Given)> = KEYS.iter().filter_map(|key| Some((key, from_clap(matches, key)?))).collect();
    let config = given.iter().find(|(key, _)| key.name == "config").map(|(_, given)| given.text().to_owned());
    let in_file = config.map(|path| file::read(&path, mistakes)).unwrap_or_default();
    for (key, value) in in_file.given {
        if !given.iter().any(|(other, _)| other.name == key.name) {
            given.push((key, value));
        }
    }
    for pair in SAME {
        settle_pair(&mut given, pair, mistakes);
    }
    (given, in_file.tokens)
}

/// Of two keys that say the same thing, leaves the one with the stronger source.
fn settle_pair(given: &mut Vec<(&'static Key, Given)>, pair: &[&str; 2], mistakes: &mut Vec<String>) {
    let find = |name: &str| given.iter().position(|(key, _)| key.name == name);
    let [Some(one), Some(other)] = pair.map(find) else { return };
    let strength = |index: usize| given[index].1.origin.strength();
    let loser = match strength(one).cmp(&strength(other)) {
        std::cmp::Ordering::Less => one,
        std::cmp::Ordering::Greater => other,
        std::cmp::Ordering::Equal => {
            let (key, value) = &given[other];
            let rival = given[one].1.origin.name(given[one].0);
            let reason = format!("and {rival} are both given; choose one");
            let name = value.origin.name(key);
            mistakes.push(match &value.origin {
                Origin::File(place) => place.explain(&reason),
                Origin::Variable(_) | Origin::Flag(_) => format!("{name} {reason}"),
            });
            other
        }
    };
    given.remove(loser);
}

fn from_clap(matches: &ArgMatches, key: &'static Key) -> Option<Given> {
    // `dwell dev` does not know all keys.
    if !matches.try_contains_id(key.name).unwrap_or(false) {
        return None;
    }
    let source = matches.value_source(key.name)?;
    let texts = match key.kind {
        Kind::Flag => vec![matches.get_flag(key.name).to_string()],
        Kind::One(_) | Kind::Many(_) => matches.get_many::<String>(key.name)?.cloned().collect(),
    };
    let flag = format!("--{}", key.name.replace('_', "-"));
    let shown =
        |name: String| if is_secret(key, &texts) { name } else { format!("{name} \"{}\"", texts.join("\", \"")) };
    let origin = match source {
        ValueSource::CommandLine => Origin::Flag(shown(flag)),
        ValueSource::EnvVariable => Origin::Variable(shown(variable(key))),
        _ => return None,
    };
    Some(Given { texts, origin })
}

/// Whether a key's value must not be shown: it is a token, or an address with a password in it.
pub(super) fn is_secret(key: &Key, texts: &[String]) -> bool {
    key.name == "token"
        || (["store", "otlp_endpoint"].contains(&key.name) && texts.iter().any(|text| text.contains('@')))
}
