//! What the engine is and promises: asked at the start, and now and then afterwards.

use std::collections::BTreeMap;
use std::sync::Mutex;

use redis::{Cmd, RedisResult, Value, cmd};

use crate::config::OpenError;
use crate::link::Connection;

/// Skew between the clocks of two masters that is worth a word, in milliseconds.
const SKEW: u64 = 500;

/// What is known of the engine's health.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Examined>);

/// What an examination found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examined {
    pub(crate) promise: String,
    pub(crate) troubles: Vec<String>,
}

impl Health {
    pub(crate) fn get(&self) -> Examined {
        self.0.lock().expect("nobody panics while holding it").clone()
    }

    pub(crate) fn set(&self, examined: Examined) {
        *self.0.lock().expect("nobody panics while holding it") = examined;
    }
}

/// What one master says of itself. `None` where it may not be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Master {
    name: String,
    appends: Option<bool>,
    fsync: Option<String>,
    eviction: Option<String>,
    memory: Option<u64>,
    replicas: Option<u64>,
}

/// Asks all masters. Refuses engines on which jobs would vanish.
pub(crate) async fn examine(connection: &Connection, wait: u32) -> Result<Examined, OpenError> {
    let masters = ask(connection).await?;
    if let Some(master) = masters.iter().find(|master| is_evicting(master)) {
        return Err(OpenError::Evicts { policy: master.eviction.clone().unwrap_or_default() });
    }
    let mut troubles = Vec::new();
    for master in &masters {
        let at = if master.name.is_empty() { String::new() } else { format!(" of {}", master.name) };
        if master.replicas.is_some_and(|replicas| replicas < u64::from(wait)) {
            let there = master.replicas.unwrap_or(0);
            troubles.push(format!("{there} replicas{at} are there, {wait} must confirm: changes will be refused"));
        }
    }
    if let Some(skew) = skew(connection).await
        && skew > SKEW
    {
        troubles.push(format!("the clocks of the masters are {skew} ms apart; keep them together with NTP"));
    }
    Ok(Examined { promise: promise(&masters, wait), troubles })
}

fn is_evicting(master: &Master) -> bool {
    master.eviction.as_ref().is_some_and(|policy| policy.starts_with("allkeys")) && master.memory != Some(0)
}

async fn ask(connection: &Connection) -> Result<Vec<Master>, OpenError> {
    let mut masters: BTreeMap<String, Master> = BTreeMap::new();
    for (name, info) in connection.ask_masters(cmd("INFO").arg("replication").take()).await? {
        let text: String = redis::from_redis_value(info).unwrap_or_default();
        let replicas = text.lines().find_map(|line| line.strip_prefix("connected_slaves:")?.trim().parse().ok());
        masters.insert(name.clone(), Master { name, replicas, ..Master::default() });
    }
    for key in ["appendonly", "appendfsync", "maxmemory-policy", "maxmemory"] {
        // A user without the right to ask is no reason to fail: what is not known is said so.
        let Ok(answers) = connection.ask_masters(cmd("CONFIG").arg("GET").arg(key).take()).await else { continue };
        for (name, answer) in answers {
            let value =
                redis::from_redis_value::<BTreeMap<String, String>>(answer).ok().and_then(|mut m| m.remove(key));
            let master = masters.entry(name.clone()).or_insert(Master { name, ..Master::default() });
            match key {
                "appendonly" => master.appends = value.map(|value| value == "yes"),
                "appendfsync" => master.fsync = value,
                "maxmemory-policy" => master.eviction = value,
                _ => master.memory = value.and_then(|value| value.parse().ok()),
            }
        }
    }
    Ok(masters.into_values().collect())
}

/// How far apart the clocks of the masters are, as far as asking takes no time.
async fn skew(connection: &Connection) -> Option<u64> {
    let answers = connection.ask_masters(Cmd::new().arg("TIME").take()).await.ok()?;
    let millis: Vec<u64> = answers.into_iter().filter_map(|(_, answer)| engine_millis(answer).ok()).collect();
    Some(millis.iter().max()? - millis.iter().min()?)
}

/// The milliseconds of an answer to `TIME`.
pub(crate) fn engine_millis(answer: Value) -> RedisResult<u64> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(answer)?;
    Ok(seconds * 1_000 + micros / 1_000)
}

/// What an answered success survives, in the user's words: as much as the weakest master gives.
fn promise(masters: &[Master], wait: u32) -> String {
    let fsync = |wanted: &str| {
        masters.iter().all(|master| master.appends == Some(true) && master.fsync.as_deref() == Some(wanted))
    };
    let disk = if masters.iter().any(|master| master.appends.is_none()) {
        "what Redis is set to write to disk (this user may not ask)"
    } else if fsync("always") {
        "a power cut of Redis (appendfsync always)"
    } else if masters.iter().any(|master| master.appends == Some(false)) {
        "nothing of Redis itself: with appendonly no, a crash of Redis loses what its last snapshot has not"
    } else if masters.iter().all(|master| master.fsync.as_deref() != Some("no")) {
        "a crash of Redis; a power cut loses up to a second (appendfsync everysec)"
    } else {
        "a crash of Redis; a power cut loses what the system has not written yet (appendfsync no)"
    };
    let replicas = masters.iter().filter_map(|master| master.replicas).min().unwrap_or(0);
    let failover = match (wait, replicas) {
        (0, 0) => String::new(),
        (0, _) => "; a fail-over loses what the replica has not got yet, usually less than a second".to_owned(),
        (wait, _) => format!("; a fail-over loses nothing that {wait} of the replicas confirmed"),
    };
    format!("survives every crash of this server, and {disk}{failover}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(appends: bool, fsync: &str, replicas: u64) -> Master {
        Master {
            appends: Some(appends),
            fsync: Some(fsync.to_owned()),
            eviction: Some("noeviction".to_owned()),
            memory: Some(0),
            replicas: Some(replicas),
            ..Master::default()
        }
    }

    #[test]
    fn the_promise_is_that_of_the_weakest_master() {
        let says = |masters: &[Master], wait, words: &str| {
            let said = promise(masters, wait);
            assert!(said.contains(words), "{said}");
        };
        says(&[master(true, "always", 0)], 0, "a power cut of Redis (appendfsync always)");
        says(&[master(true, "always", 0), master(true, "everysec", 0)], 0, "loses up to a second");
        says(&[master(true, "no", 0)], 0, "appendfsync no");
        says(&[master(true, "always", 0), master(false, "always", 0)], 0, "with appendonly no");
        says(&[Master::default()], 0, "may not ask");
        says(&[master(true, "always", 1)], 0, "a fail-over loses what the replica has not got yet");
        says(&[master(true, "always", 1)], 1, "nothing that 1 of the replicas confirmed");
    }

    #[test]
    fn only_an_engine_that_throws_jobs_away_is_refused() {
        let evicting = |policy: &str, memory| {
            is_evicting(&Master { eviction: Some(policy.to_owned()), memory: Some(memory), ..Master::default() })
        };
        assert!(evicting("allkeys-lru", 1 << 30));
        assert!(!evicting("allkeys-lru", 0), "without a limit nothing is thrown away");
        assert!(!evicting("noeviction", 1 << 30));
        assert!(!evicting("volatile-ttl", 1 << 30), "only what has an end of its own");
    }
}
