//! One job in a worker's hands: its handler runs, its lease is extended, and it is settled by what the handler said.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use dwell_wire::Code;
use dwell_wire::job::Job;
use dwell_wire::settle::Terms;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::outcome::When;
use super::{Event, Observer, Rests, Retry, millis, passes};
use crate::client::Client;
use crate::error::Error;

/// What the server says where neither job nor worker does.
const SERVERS_TTR: Duration = Duration::from_mins(1);

/// A job to be done. It reads like a [`Job`].
#[derive(Clone, Debug)]
pub struct Work {
    job: Job,
    lost: watch::Receiver<bool>,
}

impl Work {
    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Ends when the lease is lost: somebody else may have the job by then. Never ends otherwise.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            // The job was settled: it cannot be lost any more.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the lease is lost.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// The body, read as JSON.
    pub fn read<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.job.body.as_ref().map_or("null", |body| body.get()))
    }
}

impl Deref for Work {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.job
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Acked,
    Nacked,
    Buried,
    Lost,
}

/// A job and its lease.
pub(super) struct Held {
    client: Client,
    job: Job,
    token: String,
    ttr: Duration,
    /// When the lease runs out, if it is not extended, as far as can be known here.
    ends: Instant,
    observer: Observer,
}

impl Held {
    pub(super) fn new(client: Client, mut job: Job, ttr: Option<Duration>, observer: Observer) -> Self {
        let ttr = ttr.or(job.ttr_ms.map(Duration::from_millis)).unwrap_or(SERVERS_TTR);
        let token = job.token.take().unwrap_or_default();
        Self { client, job, token, ttr, ends: Instant::now() + ttr, observer }
    }

    /// Has it done.
    pub(super) async fn work<F>(mut self, handler: impl FnOnce(Work) -> F) -> End
    where
        F: Future<Output = Result<(), Retry>> + Send + 'static,
    {
        let (tell, lost) = watch::channel(false);
        let handling = AbortOnDrop(tokio::spawn(handler(Work { job: self.job.clone(), lost })));
        let said = self.wait(handling, &tell).await;
        let Some(said) = said else {
            self.tell_lost();
            return End::Lost;
        };
        let end = match &said {
            Ok(()) => End::Acked,
            Err(Retry { when: When::Never, .. }) => End::Buried,
            Err(_) => End::Nacked,
        };
        if let Err(retry) = &said {
            let (topic, id) = (self.job.topic.clone(), self.job.id.clone());
            let reason = retry.reason.clone();
            (self.observer)(&Event::Failed { topic, id, attempt: self.job.attempt, reason });
        }
        if self.settle(said).await {
            return end;
        }
        self.tell_lost();
        End::Lost
    }

    /// Waits for the handler while it extends the lease. `None`: the lease was lost before it ended.
    async fn wait(&mut self, mut handling: AbortOnDrop, tell: &watch::Sender<bool>) -> Option<Result<(), Retry>> {
        let mut is_lost = false;
        // A third of the time: two extensions may fail before it is too late.
        let mut next = Instant::now() + self.ttr / 3;
        let mut rests = Rests::default();
        loop {
            let said = tokio::select! {
                biased;
                said = &mut handling.0 => said,
                () = sleep_until(next), if !is_lost => {
                    match self.extend().await {
                        Ok(()) => {
                            rests.reset();
                            next = Instant::now() + self.ttr / 3;
                        }
                        Err(error) if passes(&error) && Instant::now() < self.ends => {
                            let rest = rests.next();
                            next = (Instant::now() + rest).min(self.ends);
                            (self.observer)(&Event::Away { error, rest });
                        }
                        // The handler goes on; it was told, and knows best how to stop.
                        Err(_) => {
                            is_lost = true;
                            tell.send_replace(true);
                        }
                    }
                    continue;
                }
            };
            return match said {
                _ if is_lost => None,
                Ok(said) => Some(said),
                Err(error) if error.is_panic() => Some(Err(Retry::by_policy("the handler panicked"))),
                Err(_) => None,
            };
        }
    }

    async fn extend(&mut self) -> Result<(), Error> {
        let asked_at = Instant::now();
        let terms = Terms { ttr: Some(millis(self.ttr)), ..Terms::default() };
        let until = self.ends.max(asked_at + Duration::from_millis(100));
        match timeout_at(until, self.client.extend(&self.token, &terms)).await {
            Ok(answer) => answer?,
            Err(_) => {
                return Err(Error::Lost { url: self.client.url().to_owned(), reason: "it takes too long".into() });
            }
        }
        self.ends = asked_at + self.ttr;
        Ok(())
    }

    /// Says what became of it, until that was heard or the lease has run out; whether it was heard.
    async fn settle(&self, said: Result<(), Retry>) -> bool {
        let mut rests = Rests::default();
        loop {
            let answer = match &said {
                Ok(()) => self.client.ack(&self.token).await,
                Err(Retry { when: When::Never, reason }) => {
                    let reason = Some(shortened(reason, 255)).filter(|reason| !reason.is_empty()).map(Into::into);
                    self.client.bury(&self.token, &Terms { reason, ..Terms::default() }).await
                }
                Err(Retry { when, reason }) => {
                    let delay = match when {
                        When::After(rest) => Some(millis(*rest)),
                        _ => None,
                    };
                    let error = Some(shortened(reason, 1_024).into());
                    self.client.nack(&self.token, &Terms { delay, error, ..Terms::default() }).await
                }
            };
            match answer {
                Ok(()) => return true,
                Err(error) if error.code() == Some(Code::LeaseLost) => return false,
                Err(error) if passes(&error) && Instant::now() < self.ends => {
                    let rest = rests.next();
                    (self.observer)(&Event::Away { error, rest });
                    sleep(rest).await;
                }
                Err(error) => {
                    (self.observer)(&Event::Away { error, rest: Duration::ZERO });
                    return false;
                }
            }
        }
    }

    fn tell_lost(&self) {
        (self.observer)(&Event::LeaseLost { topic: self.job.topic.clone(), id: self.job.id.clone() });
    }
}

/// A text of at most so many bytes, cut between characters.
fn shortened(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A handler that ends when nobody waits for it any more.
struct AbortOnDrop(JoinHandle<Result<(), Retry>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
