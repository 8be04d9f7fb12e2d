//! All the others: consumers that are parked and clients that misbehave, on a thread and a runtime of their own, so that
//! what they have to do is not in the way of the client that is measured.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use dwell_bench::Outcome;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::broken;
use crate::client::Client;

/// They are there until this is dropped.
pub(crate) struct Others {
    /// Dropped to end them.
    stay: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Others {
    /// Starts so many of both and waits until all are there.
    pub(crate) fn start(address: &str, parked: usize, broken: usize) -> Outcome<Self> {
        let (stay, stayed) = oneshot::channel();
        let (say, said) = mpsc::channel();
        let address = address.to_owned();
        let thread = thread::Builder::new().name("others".to_owned()).spawn(move || {
            let started = run(&address, parked, broken, stayed, &say);
            // Nobody waits for it any more once all are there.
            drop(say.send(started.map_err(|error| error.to_string())));
        })?;
        let others = Self { stay: Some(stay), thread: Some(thread) };
        said.recv()??;
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        drop(self.stay.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(
    address: &str,
    parked: usize,
    broken: usize,
    stayed: oneshot::Receiver<()>,
    say: &mpsc::Sender<Result<(), String>>,
) -> Outcome<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut waiting = Vec::with_capacity(parked);
        for number in 0..parked {
            let mut client = Client::open(address).await?;
            // Many topics, as there would be; a wait that outlasts the measurement.
            client.park(number % 100).await?;
            waiting.push(client);
        }
        let misbehaving = broken::start(address, broken).await?;
        say.send(Ok(()))?;
        drop(stayed.await);
        drop((waiting, misbehaving));
        Ok(())
    })
}
