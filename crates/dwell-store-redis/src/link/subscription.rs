//! Wake-ups: what scripts publish when something is due sooner than it was.

use std::time::Duration;

use dwell_core::TopicName;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;

use super::Connection;
use crate::address::Address;

/// The rest before a broken subscription is made anew.
const REST: Duration = Duration::from_millis(200);

/// What a wake-up says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Something of this topic is due at that instant (0: now). `pushed`: couriers may be concerned.
    Topic { topic: TopicName, at: u64, pushed: bool },
    /// Wake-ups may have been lost: everybody looks.
    All,
}

/// Hears wake-ups and passes them on for as long as it is wanted.
pub(crate) struct Subscription {
    address: Address,
    channels: Vec<String>,
}

impl Subscription {
    pub(crate) fn new(address: Address, channels: Vec<String>) -> Self {
        Self { address, channels }
    }

    /// Subscribes, again and again; passes on what it hears until nobody listens.
    pub(crate) async fn run(self, heard: mpsc::UnboundedSender<Wake>, first: tokio::sync::oneshot::Sender<()>) {
        let mut first = Some(first);
        while !heard.is_closed() {
            let (pushes, mut said) = mpsc::unbounded_channel();
            match self.subscribe(pushes).await {
                Ok(connection) => {
                    if let Some(first) = first.take() {
                        first.send(()).ok();
                    }
                    // Whatever was published before is lost.
                    heard.send(Wake::All).ok();
                    Self::pass_on(&mut said, &heard).await;
                    drop(connection);
                }
                Err(error) => tracing::debug!(%error, "wake-ups are not heard; trying again"),
            }
            tokio::select! {
                () = tokio::time::sleep(REST) => {}
                () = heard.closed() => {}
            }
        }
    }

    async fn subscribe(&self, pushes: mpsc::UnboundedSender<PushInfo>) -> redis::RedisResult<Connection> {
        let connection = Connection::with_pushes(&self.address, Some(pushes)).await?;
        connection.subscribe(&self.channels).await?;
        Ok(connection)
    }

    /// Passes on what is said until the connection breaks or nobody listens.
    async fn pass_on(said: &mut mpsc::UnboundedReceiver<PushInfo>, heard: &mpsc::UnboundedSender<Wake>) {
        loop {
            let push = tokio::select! {
                push = said.recv() => push,
                () = heard.closed() => return,
            };
            let Some(push) = push else { return };
            match push.kind {
                PushKind::SMessage => {
                    if let Some(wake) = push.data.last().and_then(read) {
                        heard.send(wake).ok();
                    }
                }
                // A slot that moves takes its subscribers' subscriptions with it.
                PushKind::Disconnection | PushKind::SUnsubscribe => return,
                _ => {}
            }
        }
    }
}

/// Reads `pushed due topic`.
fn read(message: &Value) -> Option<Wake> {
    let Value::BulkString(bytes) = message else { return None };
    let mut words = std::str::from_utf8(bytes).ok()?.splitn(3, ' ');
    let pushed = words.next()? == "1";
    let at = words.next()?.parse().ok()?;
    Some(Wake::Topic { topic: TopicName::new(words.next()?).ok()?, at, pushed })
}
