//! A way to Redis that can be cut: connections stay open, and nothing comes through.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub(super) struct Proxy {
    pub(super) port: u16,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_cut: Mutex<bool>,
    mended: Condvar,
}

impl Proxy {
    /// A way to this port of this machine.
    pub(super) fn start(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(Gate::default());
        let gates = Arc::clone(&gate);
        thread::spawn(move || {
            for incoming in listener.incoming().flatten() {
                gates.pass();
                let Ok(outgoing) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { continue };
                for stream in [&incoming, &outgoing] {
                    stream.set_nodelay(true).ok();
                }
                let (back, forth) = (incoming.try_clone().unwrap(), outgoing.try_clone().unwrap());
                let gate = Arc::clone(&gates);
                thread::spawn(move || forward(incoming, forth, &gate));
                let gate = Arc::clone(&gates);
                thread::spawn(move || forward(outgoing, back, &gate));
            }
        });
        Self { port, gate }
    }

    pub(super) fn cut(&self) {
        *self.gate.is_cut.lock().unwrap() = true;
    }

    pub(super) fn mend(&self) {
        *self.gate.is_cut.lock().unwrap() = false;
        self.gate.mended.notify_all();
    }
}

impl Gate {
    /// Waits until nothing is cut.
    fn pass(&self) {
        drop(self.mended.wait_while(self.is_cut.lock().unwrap(), |is_cut| *is_cut).unwrap());
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut buffer = [0; 16_384];
    while let Ok(length) = from.read(&mut buffer) {
        gate.pass();
        if length == 0 || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    to.shutdown(std::net::Shutdown::Both).ok();
}
