//! Tubes: which there are, and pausing them.

use std::collections::BTreeSet;

use beanstalk_protocol::Reply;
use dwell_core::{SetPause, Store, StoreError, TopicInfo, TopicName, TopicsQuery, limits};

use super::{Edge, failure, names, put};

/// Names all tubes.
pub(super) async fn list(edge: &Edge, out: &mut Vec<u8>) {
    match all(edge, |_| {}).await {
        Ok(names) => Reply::Ok(&names::list(&names.into_iter().collect::<Vec<_>>())).write(out),
        Err(error) => failure(&error).write(out),
    }
}

/// The names of all tubes: those with a job in them, those that someone uses or watches, and the default one. Shows
/// `see` every topic of the store.
pub(super) async fn all(edge: &Edge, mut see: impl FnMut(&TopicInfo)) -> Result<BTreeSet<TopicName>, StoreError> {
    let mut tubes = BTreeSet::from([names::default()]);
    let mut query = TopicsQuery { limit: limits::MAX_PAGE, ..TopicsQuery::default() };
    loop {
        let page = edge.store.topics(query.clone()).await?;
        for topic in &page {
            see(topic);
            if topic.counts.live() > 0 {
                tubes.insert(topic.name.clone());
            }
        }
        match page.last() {
            Some(last) if page.len() == limits::MAX_PAGE as usize => query.after = Some(last.name.clone()),
            _ => break,
        }
    }
    tubes.extend(edge.registry.names());
    Ok(tubes)
}

/// A tube, if it is there; the topic behind it, if that is.
pub(super) async fn find(edge: &Edge, tube: &TopicName) -> Result<Option<Option<TopicInfo>>, StoreError> {
    let topic = edge.store.topic(tube.clone()).await?;
    let has_jobs = topic.as_ref().is_some_and(|topic| topic.counts.live() > 0);
    let is_there = has_jobs || edge.registry.of(tube).is_had() || *tube == names::default();
    Ok(is_there.then_some(topic))
}

/// Lets no jobs be reserved from a tube for so many seconds; from 0 on they are again.
pub(super) async fn pause(edge: &Edge, tube: TopicName, seconds: u32) -> Reply<'static> {
    let Some(delay) = put::delay(seconds) else { return Reply::BadFormat };
    match find(edge, &tube).await {
        Ok(Some(_)) => {}
        Ok(None) => return Reply::NotFound,
        Err(error) => return failure(&error),
    }
    let pause = if seconds == 0 { SetPause::Off } else { SetPause::For(delay) };
    match set_pause(&*edge.store, &tube, pause).await {
        Ok(true) => {
            edge.registry.change(&tube, |entry| {
                entry.pauses += 1;
                entry.pause = seconds;
            });
            Reply::Paused
        }
        Ok(false) => Reply::OutOfMemory,
        Err(error) => failure(&error),
    }
}

/// Whether there was room for the topic.
async fn set_pause(store: &dyn Store, tube: &TopicName, pause: SetPause) -> Result<bool, StoreError> {
    let answer = store.pause(tube.clone(), pause).await?;
    // What is not there is not paused.
    Ok(answer.is_ok() || pause == SetPause::Off)
}
