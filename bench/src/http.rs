//! A small load generator: keep-alive connections that each send a request, read its answer and send the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::Outcome;

/// A request with a JSON body.
pub fn request(method: &str, path: &str, json: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
        json.len()
    )
}

/// Sends so many requests over so many connections, each of which goes to the next of the addresses.
pub fn run(
    addresses: &[&str],
    connections: usize,
    requests: usize,
    request: impl Fn(usize) -> String + Send + Sync + 'static,
    wanted: &'static [u8],
) -> Outcome<()> {
    let request = Arc::new(request);
    each(addresses, connections, requests, move |mut connection, number| {
        let request = Arc::clone(&request);
        async move {
            connection.exchange(request(number).as_bytes(), wanted).await?;
            Ok(connection)
        }
    })
}

/// Does something so many times, with so many connections that each go to the next of the addresses.
pub fn each<F>(
    addresses: &[&str],
    connections: usize,
    times: usize,
    work: impl Fn(Connection, usize) -> F + Send + Sync + 'static,
) -> Outcome<()>
where
    F: Future<Output = Result<Connection, String>> + Send,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (work, next) = (Arc::new(work), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for k in 0..connections {
            let mut connection = Connection::open(addresses[k % addresses.len()]).await?;
            let (work, next) = (Arc::clone(&work), Arc::clone(&next));
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= times {
                        return Ok(());
                    }
                    connection = work(connection, number).await?;
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
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4_096) })
    }

    /// Sends a request without waiting for its answer.
    pub async fn send(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write_all(request).await?;
        Ok(())
    }

    /// Sends a request and reads its answer, which must begin as `wanted`; what comes after its head.
    pub async fn exchange(&mut self, request: &[u8], wanted: &[u8]) -> Result<&[u8], String> {
        let broke = |error: std::io::Error| format!("a connection broke: {error}");
        self.stream.write_all(request).await.map_err(broke)?;
        self.buffer.clear();
        let body = loop {
            if self.stream.read_buf(&mut self.buffer).await.map_err(broke)? == 0 {
                return Err("the server closed a connection".to_owned());
            }
            let Some((head, whole)) = length(&self.buffer) else { continue };
            if self.buffer.len() >= whole {
                break head;
            }
        };
        if self.buffer.starts_with(wanted) {
            return Ok(&self.buffer[body..]);
        }
        Err(format!("not what was wanted: {}", String::from_utf8_lossy(&self.buffer)))
    }
}

/// Where the body of an answer begins and ends, once its head is there.
fn length(answer: &[u8]) -> Option<(usize, usize)> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let at = answer[..head].windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let digits = answer[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Some((head + 4, head + 4 + length))
}
