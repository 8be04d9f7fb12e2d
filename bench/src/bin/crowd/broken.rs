//! Clients that are slow or broken, each in its own way, for as long as they are kept.

use std::time::Duration;

use dwell_bench::Outcome;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Starts so many.
pub(crate) async fn start(address: &str, count: usize) -> Outcome<JoinSet<()>> {
    let mut clients = JoinSet::new();
    for number in 0..count {
        let stream = TcpStream::connect(address).await?;
        let address = address.to_owned();
        clients.spawn(async move {
            // Whatever becomes of it: it comes back.
            let mut stream = Some(stream);
            loop {
                let next = match stream.take() {
                    Some(stream) => Ok(stream),
                    None => TcpStream::connect(&address).await,
                };
                if let Ok(stream) = next {
                    drop(misbehave(stream, number % 5).await);
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    Ok(clients)
}

async fn misbehave(mut stream: TcpStream, kind: usize) -> std::io::Result<()> {
    const HEAD: &[u8] = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    match kind {
        // A head that comes byte by byte.
        0 => {
            for byte in HEAD.iter().cycle() {
                stream.write_all(&[*byte]).await?;
                sleep(Duration::from_millis(200)).await;
            }
        }
        // A body that never comes.
        1 => {
            stream.write_all(HEAD).await?;
            stream.write_all(b"content-length: 1000000\r\n\r\n{\"jobs\": [").await?;
            sleep(Duration::from_mins(1)).await;
        }
        // Answers that nobody reads.
        2 => loop {
            stream.write_all(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
            sleep(Duration::from_millis(50)).await;
        },
        // Nonsense, and away.
        3 => {
            stream.write_all(&[0x16, 3, 1, 0, 200, 255, 0, 13, 10, 13, 10]).await?;
            sleep(Duration::from_millis(500)).await;
        }
        // A consumer that goes away while it waits.
        _ => {
            let lease = b"POST /v1/topics/gone/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                          content-length: 15\r\n\r\n{\"wait\": \"60s\"}";
            stream.write_all(lease).await?;
            sleep(Duration::from_millis(500)).await;
        }
    }
    Ok(())
}
