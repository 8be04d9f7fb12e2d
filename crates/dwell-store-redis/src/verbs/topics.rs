//! What is asked of topics.

use std::num::NonZeroU32;

use dwell_core::{
    Counts, Delay, Pause, Purge, SetPause, State, StoreError, TopicError, TopicInfo, TopicName, TopicPolicy,
    TopicsQuery, Totals, Ttl, Ttr,
};
use futures_util::future::try_join_all;
use redis::Value;

use crate::inner::Inner;
use crate::link::Call;
use crate::record;
use crate::reply::{self, Reply};
use crate::script;

/// Topics of one call of a script.
const CALL_TOPICS: usize = 20;

impl Inner {
    /// Creates a topic, if there is room for one more.
    pub(crate) async fn create_topic(&self, topic: &TopicName) -> Result<Result<(), TopicError>, StoreError> {
        if self.topic(topic).await?.is_none() && self.count_topics().await? >= self.max_topics {
            return Ok(Err(TopicError::TooManyTopics));
        }
        self.ask(self.policy_call(topic, "create", Vec::new(), &TopicPolicy::default())).await?;
        Ok(Ok(()))
    }

    async fn count_topics(&self) -> Result<usize, StoreError> {
        let calls = (0..self.keys.partitions())
            .map(|partition| self.run(self.call(&script::TOPICS, partition).arg("").arg("").arg("0")));
        let counts = try_join_all(calls).await?;
        let counts: Result<Vec<i64>, _> = counts.iter().map(reply::int).collect();
        Ok(counts?.into_iter().filter_map(|count| usize::try_from(count).ok()).sum())
    }

    fn policy_call(&self, topic: &TopicName, what: &str, given: Vec<u8>, policy: &TopicPolicy) -> Call {
        let rate = policy.max_rate;
        let thousandths = rate.map_or(0, thousandths);
        let call = self.call(&script::POLICY, self.keys.of_topic(topic)).arg(topic.as_str()).arg(what).arg(given);
        let call = call.int(policy.ttr.map_or(0, Ttr::as_millis)).int(policy.ttl.map_or(0, Ttl::as_millis));
        let call = call.int(policy.max_in_flight.map_or(0, NonZeroU32::get).into());
        let call = call.int(thousandths).int(if thousandths == 0 { 0 } else { (thousandths * 1_000).max(1_000_000) });
        let keep_buried = policy.keep_buried.map_or_else(|| "-1".to_owned(), |keep| keep.as_millis().to_string());
        let call = call.arg(keep_buried).int(policy.keep_done.map_or(0, Delay::as_millis));
        call.flag(policy.deliver_to.is_some()).arg(record::write_policy(policy))
    }

    pub(crate) async fn set_policy(
        &self,
        topic: &TopicName,
        policy: &TopicPolicy,
    ) -> Result<Result<(), TopicError>, StoreError> {
        if let Err(error) = self.make_sure(topic).await? {
            return Ok(Err(error));
        }
        // What has happened under the old policy has happened.
        self.pass_all(topic).await?;
        let call = self.policy_call(topic, "policy", record::write_policy(policy), policy);
        let mut reply = self.ask(call).await?;
        let (_, mut unindexed) = (reply.int()?, reply.int()?);
        while unindexed == 1 {
            let call = self.call(&script::INDEX, self.keys.of_topic(topic)).arg(topic.as_str());
            unindexed = reply::int(&self.run(call).await?)?;
        }
        // And what the new one ends is over, whatever the next one says.
        self.pass_all(topic).await?;
        Ok(Ok(()))
    }

    /// Creates a topic if it is not there.
    async fn make_sure(&self, topic: &TopicName) -> Result<Result<(), TopicError>, StoreError> {
        if self.topic(topic).await?.is_some() { Ok(Ok(())) } else { self.create_topic(topic).await }
    }

    pub(crate) async fn pause(&self, topic: &TopicName, pause: SetPause) -> Result<Result<(), TopicError>, StoreError> {
        let given = match pause {
            SetPause::On => "on".to_owned(),
            SetPause::Off => "off".to_owned(),
            SetPause::For(delay) => delay.as_millis().to_string(),
        };
        if pause != SetPause::Off
            && let Err(error) = self.make_sure(topic).await?
        {
            return Ok(Err(error));
        }
        let call = self.policy_call(topic, "pause", given.into_bytes(), &TopicPolicy::default());
        let code = self.ask(call).await?.int()?;
        Ok(if code == 1 { Ok(()) } else { Err(TopicError::NotFound) })
    }

    pub(crate) async fn topic(&self, topic: &TopicName) -> Result<Option<TopicInfo>, StoreError> {
        Ok(self.infos(std::slice::from_ref(topic)).await?.pop().flatten())
    }

    pub(crate) async fn topics(&self, query: &TopicsQuery) -> Result<Vec<TopicInfo>, StoreError> {
        let from = match &query.after {
            Some(after) if after.as_str() >= query.prefix.as_str() => format!("({after}"),
            _ => format!("[{}", query.prefix),
        };
        // Names are ASCII: 0xff comes after all of them.
        let to = [b"(", query.prefix.as_bytes(), b"\xff"].concat();
        let calls = (0..self.keys.partitions()).map(|partition| {
            let call = self.call(&script::TOPICS, partition).arg(from.clone()).arg(to.clone());
            self.run(call.int(query.limit.max(1).into()))
        });
        let mut names = Vec::new();
        for found in try_join_all(calls).await? {
            names.extend(read_names(found)?);
        }
        names.sort();
        names.truncate(query.limit as usize);
        let chunks = names.chunks(CALL_TOPICS).map(|names| self.infos(names));
        Ok(try_join_all(chunks).await?.into_iter().flatten().flatten().collect())
    }

    /// What is known of topics; `None` of those that are not there.
    async fn infos(&self, names: &[TopicName]) -> Result<Vec<Option<TopicInfo>>, StoreError> {
        try_join_all(names.iter().map(|name| self.info(name))).await
    }

    async fn info(&self, name: &TopicName) -> Result<Option<TopicInfo>, StoreError> {
        let mut anyway = false;
        loop {
            let call = self.call(&script::TOPIC, self.keys.of_topic(name)).flag(anyway).arg(name.as_str());
            let mut reply = self.ask(call).await?;
            self.saw(reply.time()?);
            let now = self.about_now();
            match reply.list()?.into_iter().next() {
                Some(Value::Int(_)) => anyway = !self.pass_topic(name, 10).await?,
                Some(answer @ Value::Array(_)) => {
                    let info = read_info(Reply::new(answer)?, name)?;
                    let pause = if info.pause.holds_at(now) { info.pause } else { Pause::Off };
                    return Ok(Some(TopicInfo { pause, waiting: self.waiters.waiting_for(name), ..info }));
                }
                _ => return Ok(None),
            }
        }
    }

    pub(crate) async fn purge(&self, topic: &TopicName, what: Purge) -> Result<Result<u64, TopicError>, StoreError> {
        self.pass_all(topic).await?;
        let Some(info) = self.topic(topic).await? else { return Ok(Err(TopicError::NotFound)) };
        let (word, there) = match what {
            Purge::Topic => ("topic", u64::MAX),
            Purge::Jobs(state) => (crate::verbs::look::word(state), info.counts[state]),
        };
        let mut purged = 0;
        loop {
            let call = self.call(&script::PURGE, self.keys.of_topic(topic)).arg(topic.as_str()).arg(word);
            let mut reply = self.ask(call).await?;
            let (code, removed) = (reply.int()?, reply.count()?);
            purged += removed;
            // What comes in meanwhile is not meant, except by the end of a topic.
            if code != 0 || purged >= there {
                return Ok(Ok(purged));
            }
        }
    }
}

/// A rate in thousandths of a job a second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 10^9")]
fn thousandths(rate: dwell_core::Rate) -> u64 {
    (rate.as_per_second() * 1_000.0).round() as u64
}

/// Names of topics, as scripts answer them.
pub(crate) fn read_names(value: Value) -> Result<Vec<TopicName>, StoreError> {
    let name = |value| {
        let bytes = reply::bytes(value)?;
        let text = std::str::from_utf8(&bytes).ok().and_then(|text| TopicName::new(text).ok());
        text.ok_or(record::Unreadable("topic name"))
    };
    Ok(reply::list(value)?.into_iter().map(name).collect::<Result<_, _>>()?)
}

fn read_info(mut row: Reply, name: &TopicName) -> Result<TopicInfo, StoreError> {
    row.bytes()?;
    let mut counts = Counts::default();
    for state in State::ALL {
        counts[state] = row.count()?;
    }
    let urgent = row.count()?;
    let (next_due_at, oldest_ready_at) = (row.maybe_time()?, row.maybe_time()?);
    let pause = match row.int()? {
        -1 => Pause::On,
        0 => Pause::Off,
        until => Pause::Until(record::read_time(until)?),
    };
    let policy = record::read_policy(&row.bytes()?)?;
    let totals = Totals {
        put: row.count()?,
        leased: row.count()?,
        acked: row.count()?,
        nacked: row.count()?,
        timed_out: row.count()?,
        released: row.count()?,
        buried: row.count()?,
        redriven: row.count()?,
        cancelled: row.count()?,
        purged: row.count()?,
    };
    Ok(TopicInfo {
        name: name.clone(),
        counts,
        urgent,
        next_due_at,
        oldest_ready_at,
        totals,
        policy,
        pause,
        waiting: 0,
    })
}
