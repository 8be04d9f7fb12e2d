//! The beanstalk protocol, as its clients meet it.

mod closing;
mod commands;
mod differential;
mod durable;
mod launcher;
mod lines;
mod over_http;
mod process;
mod stats;
mod talk;
mod tubes;
mod waiting;

use crate::server::Server;

/// A server that speaks it, on files, with a clock that can be moved.
fn server() -> Server {
    server_with(&[])
}

fn server_with(extra: &[&str]) -> Server {
    Server::with(&[&["--beanstalk", "127.0.0.1:0"], extra].concat())
}
