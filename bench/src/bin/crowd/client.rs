//! A client with one connection.

use std::time::Instant;

use dwell_bench::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub(crate) async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Asks for a job that will not come.
    pub(crate) async fn park(&mut self, topic: usize) -> Outcome<()> {
        self.send(&format!("/v1/topics/parked-{topic}/lease"), "{\"wait\": \"60s\"}").await
    }

    /// Puts a job, leases it and acks it, so many times; how long each turn took, in milliseconds and in order.
    #[expect(clippy::disallowed_methods, reason = "measuring is about time")]
    pub(crate) async fn turns(&mut self, count: usize) -> Outcome<Vec<f64>> {
        let mut took = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.ask("/v1/topics/own/jobs", "{\"body\": \"hello\"}").await?;
            let leased = self.ask("/v1/topics/own/lease", "{\"wait\": \"10s\"}").await?;
            let token = leased.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next());
            let token = token.ok_or("no job was leased")?.to_owned();
            self.ask(&format!("/v1/leases/{token}/ack"), "{}").await?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        Ok(took)
    }

    async fn send(&mut self, path: &str, body: &str) -> Outcome<()> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        Ok(())
    }

    /// Sends a request that must succeed and answers its body.
    async fn ask(&mut self, path: &str, body: &str) -> Outcome<String> {
        self.send(path, body).await?;
        self.received.clear();
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err("the server has closed the connection".into());
            }
            let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.received[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).ok_or("no length")?;
            if self.received.len() < end + 4 + length.parse::<usize>()? {
                continue;
            }
            if !head.starts_with("http/1.1 20") {
                return Err(format!("{path}: {head}").into());
            }
            return Ok(String::from_utf8_lossy(&self.received[end + 4..]).into_owned());
        }
    }
}
