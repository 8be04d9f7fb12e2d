//! Taking connections: as many as there is room for, until the server stops.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Consumer, Store};
use rustix::net::sockopt::set_socket_keepalive;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;

use super::{Draining, Edge, connection};
use crate::accepting::{AFTER_REFUSAL, is_of_one_connection};
use crate::config::Config;
use crate::shutdown::Shutdown;

/// How long connections may take to give back what they hold once their time is over.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where clients come in.
#[derive(Debug)]
pub enum Listener {
    /// Over the network.
    Tcp(TcpListener),
    /// Over a file.
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream, Option<Consumer>),
    Unix(UnixStream),
}

/// Serves the beanstalk protocol on these listeners until `shutdown` starts; then lets connections settle what they hold,
/// up to the configured time, and gives back the rest. The store is left open.
pub async fn serve(
    config: Config,
    listeners: Vec<Listener>,
    store: Arc<dyn Store>,
    draining: Draining,
    shutdown: Shutdown,
) {
    let (most, drain) = (config.max_connections, config.drain);
    let room = Arc::new(Semaphore::new(most));
    let edge = Arc::new(Edge::new(config, store, draining, shutdown.clone()));
    let accepting: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let (edge, room, shutdown) = (Arc::clone(&edge), Arc::clone(&room), shutdown.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = accept(&listener, &edge, &room) => {}
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
    if time::timeout(drain, room.acquire_many(all)).await.is_err() {
        edge.end.start();
        drop(time::timeout(LAST_WORDS, room.acquire_many(all)).await);
    }
}

async fn accept(listener: &Listener, edge: &Arc<Edge>, room: &Arc<Semaphore>) {
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| {
                let consumer = Consumer::new(&format!("beanstalk {peer}")).ok();
                Stream::Tcp(stream, consumer)
            }),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        };
        match accepted {
            Ok(stream) => match Arc::clone(room).try_acquire_owned() {
                Ok(place) => drop(tokio::spawn(look_after(stream, Arc::clone(edge), place))),
                // The protocol has no word for it: the connection is closed.
                Err(_) => {
                    edge.config.metrics.refused_beanstalk.inc();
                }
            },
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept beanstalk connections");
                time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
}

async fn look_after(stream: Stream, edge: Arc<Edge>, place: OwnedSemaphorePermit) {
    let connections = edge.config.metrics.beanstalk_connections.clone();
    connections.inc();
    match stream {
        Stream::Tcp(stream, consumer) => {
            // Workers keep connections for days: only the system finds out that a machine is gone.
            let alive = || set_socket_keepalive(&stream, true).map_err(std::io::Error::from);
            if let Err(error) = stream.set_nodelay(true).and_then(|()| alive()) {
                tracing::debug!(%error, "cannot set up a socket");
            }
            match edge.config.beanstalk_tls.clone() {
                None => connection::serve(stream, edge, consumer).await,
                Some(tls) => {
                    if let Some(stream) = tls.accept(stream).await {
                        connection::serve(stream, edge, consumer).await;
                    }
                }
            }
        }
        Stream::Unix(stream) => connection::serve(stream, edge, Consumer::new("beanstalk unix").ok()).await,
    }
    connections.dec();
    drop(place);
}
