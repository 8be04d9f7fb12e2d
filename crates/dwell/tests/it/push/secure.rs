//! Targets that speak TLS, and those whose certificates are not theirs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Child;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::authority::Authority;
use crate::client::{Client, text_of};
use crate::server::{dwell, start, temporary, until};

/// A target with a certificate of this name, which takes one request and shows it.
fn target(authority: &Authority, name: &str) -> (SocketAddr, JoinHandle<String>) {
    let (certificate, key) = authority.sign(name);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let got = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
        let (mut got, mut buffer) = (String::new(), [0; 4_096]);
        // One who does not trust the certificate goes away before a word is said.
        while !got.ends_with("\r\n\r\nnull") {
            match stream.read(&mut buffer) {
                Ok(length) if length > 0 => got.push_str(std::str::from_utf8(&buffer[..length]).unwrap()),
                _ => return got,
            }
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        got
    });
    (address, got)
}

/// A server that trusts one authority.
struct Trusting {
    process: Child,
    client: Client,
    _directory: TempDir,
}

impl Trusting {
    fn start(authority: &Authority) -> Self {
        let directory = temporary();
        let file = directory.path().join("authority.pem");
        std::fs::write(&file, &authority.pem).unwrap();
        let mut command = dwell(&["dev", "--listen", "127.0.0.1:0"]);
        let (process, address, _) = start(command.env("SSL_CERT_FILE", file));
        Self { process, client: Client::new(address), _directory: directory }
    }

    fn put(&self, url: &str) {
        self.client.put_job("t", "a", json!({"deliver_to": url, "retry": {"attempts": 1}}));
    }

    /// The job, once it is buried.
    fn buried(&self) -> Value {
        until("it is buried", || self.client.job("t", "a")["state"] == "buried");
        self.client.job("t", "a")
    }
}

impl Drop for Trusting {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_target_with_a_good_certificate_is_called() {
    let authority = Authority::new();
    let server = Trusting::start(&authority);
    let (address, got) = target(&authority, "localhost");
    server.put(&format!("https://localhost:{}/hook", address.port()));
    let got = got.join().unwrap();
    assert!(got.starts_with("POST /hook HTTP/1.1\r\n") && got.contains("webhook-id: msg_"), "{got}");
    until("it is acked", || server.client.topic("t")["totals"]["acked"] == 1);
}

#[test]
fn a_target_with_a_certificate_of_somebody_elses_is_not() {
    let authority = Authority::new();
    let server = Trusting::start(&authority);
    let (stranger, other_name) = (target(&Authority::new(), "localhost"), target(&authority, "other.example"));
    for (address, got) in [stranger, other_name] {
        server.put(&format!("https://localhost:{}/hook", address.port()));
        assert_eq!(got.join().unwrap(), "", "nothing is said to it");
        let error = server.buried()["last_error"].clone();
        assert!(
            text_of(&error).starts_with("the target was not reached: ") && text_of(&error).contains("certificate"),
            "{error}"
        );
    }
}
