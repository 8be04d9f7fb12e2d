//! Dwell, for comparison.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use dwell_client::Client;
use dwell_client::wire::Duration;
use dwell_client::wire::cancel::{CancelJobs, JobName};
use dwell_client::wire::put::{PutJob, PutJobs};
use tokio::runtime::Runtime;

use super::{Connection, HOUR, words};
use crate::Outcome;
use crate::run::Options;
use crate::server::text;

const TOPIC: &str = "orders";

pub(super) fn command(options: &Options, data: &Path, port: u16) -> Outcome<Vec<OsString>> {
    let (program, listen) = (options.dwell()?, format!("127.0.0.1:{port}"));
    Ok(words(&[text(&program)?, "serve", "--listen", &listen, "--log", "error", "--data-dir", text(data)?]))
}

pub(super) fn connect(port: u16) -> Outcome<Box<dyn Connection>> {
    // A thread of its own waits for its own answers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(&format!("http://127.0.0.1:{port}"), None)?;
    Ok(Box::new(Blocking { runtime: Some(runtime), client }))
}

struct Blocking {
    runtime: Option<Runtime>,
    client: Client,
}

impl Blocking {
    fn wait<T: Send>(&mut self, call: impl Future<Output = T> + Send) -> Outcome<T> {
        let runtime = self.runtime.as_ref().ok_or("it is there until the end")?;
        // A thread that is itself part of a runtime may not wait for another one.
        Ok(std::thread::scope(|scope| scope.spawn(|| runtime.block_on(call)).join()).map_err(|_| "a call broke")?)
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // Nor may it end one and wait for that.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connection for Blocking {
    fn put(&mut self, first: u64, count: u64) -> Outcome<Vec<u64>> {
        let body = serde_json::value::to_raw_value("job")?;
        let job = |number: u64| PutJob {
            topic: Some(Cow::Borrowed(TOPIC)),
            id: Some(Cow::Owned(number.to_string())),
            delay: Some(Duration(HOUR * 1_000)),
            body: Some(&body),
            ..PutJob::default()
        };
        let jobs = PutJobs { jobs: (first..first + count).map(job).collect() };
        let client = self.client.clone();
        let results = self.wait(async move { client.put_many(&jobs).await })??;
        Ok((first..).zip(results).filter(|(_, result)| result.status == 201).map(|(number, _)| number).collect())
    }

    fn count(&mut self, names: &[u64]) -> Outcome<u64> {
        let named = |name: &u64| JobName { topic: Cow::Borrowed(TOPIC), id: Cow::Owned(name.to_string()) };
        let jobs = CancelJobs { jobs: names.iter().map(named).collect() };
        let client = self.client.clone();
        let results = self.wait(async move { client.cancel_many(&jobs).await })??;
        Ok(results.iter().filter(|result| result.status == 204).count() as u64)
    }
}
