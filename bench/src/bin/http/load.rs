//! A small load generator: keep-alive connections that each send a request, read its answer and send the next.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dwell_bench::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::{Args, seconds};

/// Thirty days in milliseconds: what due times are spread over.
const MONTH: u64 = 30 * 24 * 3_600 * 1_000;

/// Connections that send batches: enough to keep the next one ready.
const BATCH_CONNECTIONS: usize = 4;

/// Single durable puts a second.
pub(crate) fn single(args: &Args, address: &str) -> Outcome<f64> {
    let body = "x".repeat(args.body);
    let request = move |number: usize| {
        let json = format!("{{\"delay\":{},\"body\":\"{body}\"}}", spread(number));
        format!(
            "PUT /v1/topics/orders/jobs/order-{number} HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
            json.len()
        )
    };
    let (count, connections) = (args.single, args.connections);
    let ((), time) = seconds(|| run(address, connections, count, request, b"HTTP/1.1 201"))?;
    Ok(count as f64 / time)
}

/// Durable puts a second in batches.
pub(crate) fn batched(args: &Args, address: &str) -> Outcome<f64> {
    let (body, size) = ("x".repeat(args.body), args.batch);
    let request = move |batch: usize| {
        let mut json = String::with_capacity(size * (body.len() + 80));
        json.push_str("{\"jobs\":[");
        for number in batch * size..(batch + 1) * size {
            let comma = if number % size == 0 { "" } else { "," };
            let _ = write!(
                json,
                "{comma}{{\"topic\":\"orders\",\"id\":\"order-{number}\",\"delay\":{},\"body\":\"{body}\"}}",
                spread(number)
            );
        }
        json.push_str("]}");
        format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
            json.len()
        )
    };
    let batches = args.batched / args.batch;
    let ((), time) = seconds(|| run(address, BATCH_CONNECTIONS, batches, request, b"HTTP/1.1 200"))?;
    Ok((batches * args.batch) as f64 / time)
}

/// A due time that looks random and is not.
fn spread(number: usize) -> u64 {
    (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % MONTH
}

fn run(
    address: &str,
    connections: usize,
    requests: usize,
    request: impl Fn(usize) -> String + Send + Sync + 'static,
    wanted: &'static [u8],
) -> Outcome<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (request, next) = (Arc::new(request), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let mut connection = Connection::open(address).await?;
            let (request, next) = (Arc::clone(&request), Arc::clone(&next));
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return Ok(());
                    }
                    connection.exchange(request(number).as_bytes(), wanted).await?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            let ended: Result<(), String> = ended?;
            ended?;
        }
        Ok(())
    })
}

/// One keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4_096) })
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write_all(request).await?;
        Ok(())
    }

    /// Sends a request and reads its answer, which must begin as `wanted`.
    async fn exchange(&mut self, request: &[u8], wanted: &[u8]) -> Result<(), String> {
        let broke = |error: std::io::Error| format!("a connection broke: {error}");
        self.stream.write_all(request).await.map_err(broke)?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await.map_err(broke)? == 0 {
                return Err("the server closed a connection".to_owned());
            }
            let Some(whole) = length(&self.buffer) else { continue };
            if self.buffer.len() >= whole {
                break;
            }
        }
        if self.buffer.starts_with(wanted) {
            return Ok(());
        }
        Err(format!("not what was wanted: {}", String::from_utf8_lossy(&self.buffer)))
    }
}

/// How long an answer is, once its head is there.
fn length(answer: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let at = answer[..head].windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let digits = answer[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Some(head + 4 + length)
}
