//! What clients do: all of them the same, one pipeline after the other, until time is over.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use beanstalk_protocol::{Command, Put, Reply};
use dwell_bench::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{Args, now};

/// What clients do.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    cycle: bool,
    pipeline: usize,
    connections: usize,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.cycle { "put + reserve + delete" } else { "put" };
        let how = if self.pipeline == 1 { "one by one".to_owned() } else { format!("pipelines of {}", self.pipeline) };
        let plural = if self.connections == 1 { "" } else { "s" };
        write!(f, "{what}, {how}, {} connection{plural}", self.connections)
    }
}

impl Load {
    /// All of them.
    pub(crate) fn all(args: &Args) -> Vec<Self> {
        let mut all = Vec::new();
        for (cycle, pipeline) in [(false, args.pipeline), (true, args.pipeline), (false, 1), (true, 1)] {
            all.extend(args.connections.iter().map(|&connections| Self { cycle, pipeline, connections }));
        }
        all
    }

    /// Jobs a second.
    pub(crate) fn run(&self, args: &Args, address: &str) -> Outcome<f64> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (load, body) = (*self, args.body);
        runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..load.connections {
                clients.push(Client::open(address).await?);
            }
            let start = now();
            let jobs = Arc::new(AtomicUsize::new(0));
            let mut tasks = JoinSet::new();
            for client in clients {
                tasks.spawn(load.one(client, body, Arc::clone(&jobs)));
            }
            // Clients go on for ever: one that ends has met something unexpected.
            let ended = timeout(Duration::from_secs_f64(args.seconds), tasks.join_next()).await;
            if let Ok(Some(ended)) = ended {
                return Err(ended?.into());
            }
            Ok(jobs.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
        })
    }

    /// One client; answers why it cannot go on.
    async fn one(self, mut client: Client, body: usize, jobs: Arc<AtomicUsize>) -> String {
        let body = vec![b'x'; body];
        let (mut puts, mut reserves) = (Vec::new(), Vec::new());
        for _ in 0..self.pipeline {
            Put { priority: 1_024, delay: 0, ttr: 60, size: 0 }.write(&body, &mut puts);
            Command::Reserve.write(&mut reserves);
        }
        loop {
            if let Err(why) = self.round(&mut client, &puts, &reserves, &jobs).await {
                return why;
            }
        }
    }

    async fn round(&self, client: &mut Client, puts: &[u8], reserves: &[u8], jobs: &AtomicUsize) -> Result<(), String> {
        let count = |is_good: bool| {
            jobs.fetch_add(usize::from(is_good), Ordering::Relaxed);
            is_good
        };
        let inserted = |reply: &Reply<'_>| matches!(reply, Reply::Inserted(_));
        if !self.cycle {
            return client.exchange(puts, self.pipeline, |reply| count(inserted(reply))).await;
        }
        client.exchange(puts, self.pipeline, inserted).await?;
        let mut deletes = Vec::new();
        let take = |reply: &Reply<'_>| {
            let Reply::Reserved { id, .. } = reply else { return false };
            Command::Delete(*id).write(&mut deletes);
            true
        };
        client.exchange(reserves, self.pipeline, take).await?;
        client.exchange(&deletes, self.pipeline, |reply| count(*reply == Reply::Deleted)).await
    }
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    /// Sends commands and reads as many replies, each of which must be good.
    pub(crate) async fn exchange(
        &mut self,
        commands: &[u8],
        replies: usize,
        mut is_good: impl FnMut(&Reply<'_>) -> bool,
    ) -> Result<(), String> {
        let broke = |error: std::io::Error| format!("a connection broke: {error}");
        // A server that does not read on before its answers are taken must not stop us.
        let (mut reading, mut writing) = self.stream.split();
        let write = async { writing.write_all(commands).await.map_err(broke) };
        let buffer = &mut self.buffer;
        let read = async {
            let (mut seen, mut at) = (0, 0);
            buffer.clear();
            while seen < replies {
                if reading.read_buf(buffer).await.map_err(broke)? == 0 {
                    return Err("the server closed a connection".to_owned());
                }
                while let Some((reply, length)) = Reply::read(&buffer[at..]).map_err(|error| error.to_string())? {
                    if !is_good(&reply) {
                        return Err(format!("not what was wanted: {reply:?}"));
                    }
                    seen += 1;
                    at += length;
                }
                buffer.drain(..at);
                at = 0;
            }
            Ok(())
        };
        let (written, read) = tokio::join!(write, read);
        written.and(read)
    }
}
