//! The old queue, as it lies in Redis.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script, Value, cmd};

use super::alone::Alone;
use super::entry::Entry;
use crate::exit::{Code, Exit};

/// Jobs read at once. The script that reads them keeps Redis busy for about a millisecond.
pub(super) const BATCH: usize = 100;
/// Bytes read at once, beyond the first job.
const BATCH_BYTES: usize = 1 << 20;
/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often, and how many times, it is looked whether another import is over: longer than one that was killed holds on.
const LOOK: Duration = Duration::from_millis(250);
const LOOKS: usize = 60;

/// How the keys are laid out.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    Sets { queues: String, bodies: String, topic: String, kinds: Vec<String> },
    Pool { pool: String, buckets: String, ready: String },
}

/// A sorted set or a list with jobs, and the hash with what is kept of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: Vec<u8>,
    pub(super) hash: Vec<u8>,
    /// The topic of all jobs in it, or each says its own.
    pub(super) topic: Option<String>,
    /// A list of what is due, without scores.
    pub(super) is_list: bool,
}

impl Place {
    pub(super) fn name(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }
}

/// Who imports.
const IMPORTING: &str = "dwell:import";

/// Scores of the first or the last, as a range of a sorted set tells them.
type Ends = Vec<(Vec<u8>, f64)>;

/// A queue and the way to it.
pub(super) struct Old {
    connection: MultiplexedConnection,
    layout: Layout,
    alone: Alone,
    read: Script,
    take: Script,
}

/// What a sorted set looks like from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) jobs: u64,
    /// Those with a smaller score than asked for.
    pub(super) before: u64,
    pub(super) first: Option<f64>,
    pub(super) last: Option<f64>,
    /// Entries of the hash.
    pub(super) kept: u64,
}

impl Old {
    pub(super) async fn open(url: &str, layout: Layout) -> Result<Self, Exit> {
        // Whoever was first has chosen; there is only one to choose from.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        if url.starts_with("redis-cluster:") || url.starts_with("rediss-cluster:") {
            return Err(cluster(url));
        }
        let client = Client::open(url).map_err(|error| {
            let say = "is no address of Redis; try redis://127.0.0.1:6379";
            Exit::new(Code::Usage, format!("{} {say}: {error}", without_password(url)))
        })?;
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(|error| {
            Exit::new(Code::Unreachable, format!("cannot reach Redis at {}: {error}", without_password(url)))
        })?;
        let info: String = cmd("INFO").arg("cluster").query_async(&mut connection).await.map_err(broken)?;
        if info.contains("cluster_enabled:1") {
            return Err(cluster(url));
        }
        let script = |body: &str| Script::new(&format!("{}\n{body}", include_str!("alone.lua")));
        let (read, take) = (script(include_str!("read.lua")), script(include_str!("take.lua")));
        Ok(Self { connection, layout, alone: Alone::new(), read, take })
    }

    /// Waits until no other import is at work on this Redis, and keeps others out from then on.
    pub(super) async fn begin(&mut self) -> Result<(), Exit> {
        let mut holder = String::new();
        for _ in 0..LOOKS {
            let mut set = cmd("SET");
            set.arg(IMPORTING).arg(self.alone.name()).arg("NX").arg("PX").arg(10_000);
            let is_set: Option<String> = set.query_async(&mut self.connection).await.map_err(broken)?;
            if is_set.is_some() {
                return Ok(());
            }
            let found: Option<String> =
                cmd("GET").arg(IMPORTING).query_async(&mut self.connection).await.map_err(broken)?;
            holder = found.unwrap_or_default();
            if self.alone.is_over(&holder) {
                self.end_of(&holder).await?;
                continue;
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(Exit::new(Code::Conflict, format!("another import is at work: {holder}; nothing was moved")))
    }

    /// Lets others import.
    pub(super) async fn end(&mut self) -> Result<(), Exit> {
        let name = self.alone.name().to_owned();
        self.end_of(&name).await
    }

    async fn end_of(&mut self, holder: &str) -> Result<(), Exit> {
        let script = Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end");
        script.key(IMPORTING).arg(holder).invoke_async::<()>(&mut self.connection).await.map_err(broken)
    }

    /// Where jobs are, in the order of their names.
    pub(super) async fn places(&mut self) -> Result<Vec<Place>, Exit> {
        let mut places = Vec::new();
        match self.layout.clone() {
            Layout::Sets { queues, bodies, topic, kinds } => {
                let (before, after) = queues.split_once("{kind}").unwrap_or((&queues, ""));
                for key in self.keys(&format!("{}*{}", literal(before), literal(after)), "zset").await? {
                    let Ok(name) = std::str::from_utf8(&key) else { continue };
                    let kind = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                    let Some(kind) = kind.filter(|kind| kinds.is_empty() || kinds.iter().any(|one| one == kind)) else {
                        continue;
                    };
                    let hash = bodies.replace("{kind}", kind).into_bytes();
                    let topic = Some(topic.replace("{kind}", kind));
                    places.push(Place { hash, topic, is_list: false, key });
                }
            }
            Layout::Pool { pool, buckets, ready } => {
                for (pattern, is_list) in [(ready, true), (buckets, false)] {
                    let keys = self.keys(&pattern, if is_list { "list" } else { "zset" }).await?;
                    let place = |key| Place { key, hash: pool.clone().into_bytes(), topic: None, is_list };
                    places.extend(keys.into_iter().map(place));
                }
            }
        }
        Ok(places)
    }

    /// Keys of a pattern and type. A scan may tell of one twice.
    async fn keys(&mut self, pattern: &str, kind: &str) -> Result<Vec<Vec<u8>>, Exit> {
        let mut keys = std::collections::BTreeSet::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000).arg("TYPE").arg(kind);
            let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(&mut self.connection).await.map_err(broken)?;
            keys.extend(found);
            cursor = next;
            if cursor == 0 {
                return Ok(keys.into_iter().collect());
            }
        }
    }

    /// How many jobs a place has, and the range of their scores.
    pub(super) async fn extent(&mut self, place: &Place, score: f64) -> Result<Extent, Exit> {
        let connection = &mut self.connection;
        let kept = cmd("HLEN").arg(&place.hash).query_async(connection).await.map_err(broken)?;
        if place.is_list {
            let jobs = cmd("LLEN").arg(&place.key).query_async(connection).await.map_err(broken)?;
            return Ok(Extent { jobs, before: jobs, kept, ..Extent::default() });
        }
        let mut pipe = redis::pipe();
        pipe.cmd("ZCARD").arg(&place.key);
        pipe.cmd("ZCOUNT").arg(&place.key).arg("-inf").arg(format!("({score}"));
        for end in [0, -1] {
            pipe.cmd("ZRANGE").arg(&place.key).arg(end).arg(end).arg("WITHSCORES");
        }
        let (jobs, before, first, last): (u64, u64, Ends, Ends) = pipe.query_async(connection).await.map_err(broken)?;
        let score = |ends: Ends| ends.first().map(|(_, score)| *score);
        Ok(Extent { jobs, before, first: score(first), last: score(last), kept })
    }

    /// Reads the jobs of a place from a score on, passing over the first few.
    pub(super) async fn read(&mut self, place: &Place, least: Option<f64>, over: usize) -> Result<Vec<Entry>, Exit> {
        let least = least.map_or("-inf".to_owned(), |score| score.to_string());
        let mut call = self.read.key(&place.key);
        let call = call
            .key(&place.hash)
            .key(IMPORTING)
            .arg(self.alone.name())
            .arg(least)
            .arg(over)
            .arg(BATCH)
            .arg(BATCH_BYTES);
        let rows: Vec<(Vec<u8>, String, Value, String)> =
            call.invoke_async(&mut self.connection).await.map_err(broken)?;
        let read = |(member, score, value, hash)| {
            let value: Option<Vec<u8>> = redis::from_redis_value(value).ok().flatten();
            Entry { member, score: Some(score).filter(|score: &String| !score.is_empty()), value, hash }
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Takes jobs out if they are as they were read; which of them were.
    pub(super) async fn take(&mut self, place: &Place, entries: &[&Entry]) -> Result<Vec<bool>, Exit> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = self.take.key(&place.key);
        call.key(&place.hash).key(IMPORTING).arg(self.alone.name());
        for entry in entries {
            call.arg(&entry.member).arg(entry.score.as_deref().unwrap_or("")).arg(&entry.hash);
        }
        call.invoke_async(&mut self.connection).await.map_err(broken)
    }
}

/// A pattern of SCAN that matches this text alone.
fn literal(text: &str) -> String {
    let special = |c: char| "*?[]^-\\".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn broken(error: redis::RedisError) -> Exit {
    if error.code() == Some("IMPORTING") {
        return Exit::new(Code::Conflict, "another import has taken over; nothing is lost");
    }
    Exit::failure(format!("the old queue: {error}; nothing is lost, run it again"))
}

/// The jobs of a cluster's queue and their bodies lie on several nodes: no step takes a job out of both.
fn cluster(url: &str) -> Exit {
    let say = "is a Redis Cluster, and an import reads from one Redis: stop the old consumers, copy the queue's keys to a \
               Redis of its own (redis-cli -c … MIGRATE … COPY) and import from there with --all; nothing was moved";
    Exit::new(Code::Usage, format!("{} {say}", without_password(url)))
}

/// An address as it may be shown.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_was_typed_and_passwords_are_not_shown() {
        assert_eq!(literal("a*[b]:c"), "a\\*\\[b\\]:c");
        assert_eq!(without_password("redis://u:p@h:1/2"), "redis://h:1/2");
        assert_eq!(without_password("redis://h:1"), "redis://h:1");
    }
}
