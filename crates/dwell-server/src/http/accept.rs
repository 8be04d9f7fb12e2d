//! Taking connections: as many as there is room for, until the server stops.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::Store;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;

use super::service::Service;
use super::{App, connection};
use crate::accepting::{AFTER_REFUSAL, is_of_one_connection};
use crate::config::Config;
use crate::shutdown::Shutdown;

/// What a connection too many is told.
const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 141\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Too much to do\",\"status\":503,\"code\":\"overloaded\",\
    \"detail\":\"the server has as many connections as it may have\"}";

/// Serves HTTP on these listeners until `shutdown` starts; then lets requests under way finish, up to the configured time.
/// The store is left open. Jobs with a target are pushed by [`crate::push`].
pub async fn serve(config: Config, listeners: Vec<TcpListener>, store: Arc<dyn Store>, shutdown: Shutdown) {
    let (most, drain) = (config.max_connections, config.drain);
    let room = Arc::new(Semaphore::new(most));
    let app = App::new(config, store, shutdown.clone());
    let service = Service::new(&app);
    let accepting: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let (service, room, shutdown) = (service.clone(), Arc::clone(&room), shutdown.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = accept(&listener, &service, &room) => {}
                    () = shutdown.started() => {}
                }
            })
        })
        .collect();
    for task in accepting {
        drop(task.await);
    }
    // Every connection holds a place: all places free means that all are done.
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    drop(time::timeout(drain, room.acquire_many(all)).await);
}

async fn accept(listener: &TcpListener, service: &Service, room: &Arc<Semaphore>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Ok(place) = Arc::clone(room).try_acquire_owned() {
                    drop(tokio::spawn(look_after(stream, service.clone(), place)));
                } else {
                    service.app().config.metrics.refused_connections.inc();
                    // Without a handshake, which costs more than a refusal may, a TLS client can be told nothing.
                    if service.app().config.tls.is_none() {
                        drop(tokio::spawn(refuse(stream)));
                    }
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
}

async fn look_after(stream: TcpStream, service: Service, place: OwnedSemaphorePermit) {
    let connections = service.app().config.metrics.connections.clone();
    connections.inc();
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    match service.app().config.tls.clone() {
        None => connection::run(stream, service).await,
        Some(tls) => {
            if let Some(stream) = tls.accept(stream).await {
                connection::run(stream, service).await;
            }
        }
    }
    connections.dec();
    drop(place);
}

async fn refuse(mut stream: TcpStream) {
    drop(time::timeout(Duration::from_secs(1), stream.write_all(TOO_MANY.as_bytes())).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_a_whole_answer() {
        let (head, body) = TOO_MANY.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: dwell_wire::Problem = serde_json::from_str(body).unwrap();
        assert_eq!(problem.code, dwell_wire::Code::Overloaded);
    }
}
