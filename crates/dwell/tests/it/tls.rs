//! HTTPS, the beanstalk protocol over TLS, and certificates and tokens that are replaced while the server runs.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use tempfile::TempDir;

use crate::authority::Authority;
use crate::server::{Server, dwell, run, start, start_any, temporary, until};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts one authority, and may show a certificate of its own.
fn connect(address: SocketAddr, trusts: &Authority, shows: Option<&Authority>, protocol: &str) -> Option<Stream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusts.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = match shows {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let (certificate, key) = authority.sign("a-client");
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            config.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
        }
    };
    config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.as_bytes().to_vec()] };
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).ok()?;
    }
    Some(StreamOwned::new(connection, socket))
}

/// Asks on a connection that stays, and answers the status line; none if the server has closed it.
fn ask(stream: &mut Stream, path: &str, token: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let (mut answer, mut byte) = (Vec::new(), [0; 1]);
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some(head.lines().next().unwrap().to_owned())
}

const OK: &str = "http/1.1 200 ok";
const UNAUTHORIZED: &str = "http/1.1 401 unauthorized";

/// A server that shows a certificate for `localhost`, and the directory with its files.
fn secure(authority: &Authority, extra: &[&str]) -> (Server, TempDir) {
    let directory = temporary();
    let (certificate, key) = authority.write("localhost", directory.path());
    let flags = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    (Server::with(&[&flags, extra].concat()), directory)
}

fn curl(arguments: &[&str]) -> String {
    let output =
        Command::new("curl").args(["--silent", "--noproxy", "*", "--max-time", "20"]).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn https_is_served_with_http_1_and_2() {
    let authority = Authority::new();
    let (server, directory) = secure(&authority, &[]);
    assert!(server.banner.contains(&format!("  address     https://{}", server.address)), "{}", server.banner);
    let mut stream = connect(server.address, &authority, None, "http/1.1").unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(ask(&mut stream, "/v1/info", "").as_deref(), Some(OK));
    let stream = connect(server.address, &authority, None, "h2").unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    assert!(connect(server.address, &Authority::new(), None, "").is_none(), "a stranger's server");
    let (ca, url) = (directory.path().join("ca.pem"), format!("https://localhost:{}/v1/info", server.address.port()));
    std::fs::write(&ca, &authority.pem).unwrap();
    for (flag, version) in [("--http1.1", "1.1 200"), ("--http2", "2 200")] {
        let told = ["--cacert", ca.to_str().unwrap(), flag, "--output", "/dev/null"];
        let asked = [&told[..], &["--write-out", "%{http_version} %{http_code}", &url]].concat();
        assert_eq!(curl(&asked), version);
    }
    // What is not TLS gets nothing, and holds nobody up.
    let (mut plain, mut answer) = (TcpStream::connect(server.address).unwrap(), Vec::new());
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let _silent = TcpStream::connect(server.address).unwrap();
    drop(plain.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let mut stream = connect(server.address, &authority, None, "").unwrap();
    assert_eq!(ask(&mut stream, "/healthz", "").as_deref(), Some(OK));
}

#[test]
fn the_command_line_trusts_an_authority_that_it_is_told_of() {
    let authority = Authority::new();
    let (server, directory) = secure(&authority, &["--token", "secret"]);
    let url = format!("https://localhost:{}", server.address.port());
    let (ca, other) = (directory.path().join("ca.pem"), directory.path().join("other.pem"));
    std::fs::write(&ca, &authority.pem).unwrap();
    std::fs::write(&other, Authority::new().pem).unwrap();
    let verb = |ca: &Path| dwell(&["topics", "--url", &url, "--token", "secret", "--ca", ca.to_str().unwrap()]);
    assert_eq!(run(&mut verb(&ca)).code, Some(0));
    assert_eq!(run(dwell(&["topics", "--url", &url, "--token", "secret"]).env("DWELL_CA", &ca)).code, Some(0));
    let ended = run(&mut verb(&other));
    assert!(ended.code == Some(6) && ended.stderr.contains("certificate"), "{ended:?}");
    for (file, text) in [("nowhere.pem", None), ("empty.pem", Some("")), ("key.pem", None)] {
        let file = directory.path().join(file);
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        assert_eq!(run(&mut verb(&file)).code, Some(2), "{}", file.display());
    }
}

#[test]
fn a_hang_up_shows_a_new_certificate_and_drops_nobody() {
    let (old, new) = (Authority::new(), Authority::new());
    let (server, directory) = secure(&old, &[]);
    let mut stays = connect(server.address, &old, None, "").unwrap();
    assert_eq!(ask(&mut stays, "/v1/info", "").as_deref(), Some(OK));
    // A key that does not fit, as it is while the two files are being replaced: the old certificate stays.
    let (_, key) = new.sign("localhost");
    std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    server.signal(Signal::HUP);
    until("it says that it keeps the old ones", || server.log().contains("stay as they were"));
    assert!(server.log().contains("key.pem"), "and which file is wrong: {}", server.log());
    assert!(connect(server.address, &old, None, "").is_some());
    new.write("localhost", directory.path());
    server.signal(Signal::HUP);
    until("new connections see the new one", || connect(server.address, &new, None, "").is_some());
    assert!(connect(server.address, &old, None, "").is_none());
    assert_eq!(ask(&mut stays, "/v1/info", "").as_deref(), Some(OK), "a connection that was there goes on");
}

#[test]
fn a_hang_up_reads_tokens_again_and_drops_nobody() {
    let directory = temporary();
    let (config, tokens) = (directory.path().join("dwell.toml"), directory.path().join("tokens"));
    let scoped = |secret: &str| format!("[[tokens]]\nname = \"n\"\ntoken = \"{secret}\"\nscopes = [\"put\"]\n");
    std::fs::write(&config, scoped("scoped-1")).unwrap();
    std::fs::write(&tokens, "plain-1\n").unwrap();
    let server = Server::with(&["--config", config.to_str().unwrap(), "--token-file", tokens.to_str().unwrap()]);
    let status = |token: &str| server.showing(token).get("/v1/info").status;
    // Parked with a token that is about to go.
    server.showing("plain-1").put("/v1/topics/t/policy", json!({})).ok(200);
    let parked = server.showing("plain-1").later("/v1/topics/t/lease", json!({"wait": "30s"}));
    until("a consumer waits", || server.showing("plain-1").topic("t")["waiting"] == 1);
    std::fs::write(&config, scoped("scoped-2")).unwrap();
    std::fs::write(&tokens, "plain-2\n").unwrap();
    server.signal(Signal::HUP);
    until("the new tokens hold", || status("plain-2") == 200);
    assert_eq!([status("plain-1"), status("scoped-1"), status("scoped-2")], [401, 401, 200]);
    server.showing("scoped-2").put_job("t", "a", json!({}));
    assert_eq!(parked.join().unwrap().list("jobs").len(), 1, "who was let in before is served");
    // A mistake in one file leaves the tokens of both as they are.
    std::fs::write(&config, "[[tokens]]\nname = \"n\"\n").unwrap();
    std::fs::write(&tokens, "plain-3\n").unwrap();
    server.signal(Signal::HUP);
    until("it says so", || server.log().contains("stay as they were"));
    assert_eq!([status("plain-2"), status("scoped-2"), status("plain-3")], [200, 200, 401]);
    assert!(!server.log().contains("plain-") && !server.log().contains("scoped-"), "tokens are never printed");
}

/// All or nothing, and nothing that would leave a server less safe than it was started.
#[test]
fn a_hang_up_that_would_take_away_what_protects_the_server_changes_nothing() {
    let authority = Authority::new();
    let directory = temporary();
    let (certificate, key) = authority.write("localhost", directory.path());
    let file = directory.path().join("dwell.toml");
    let token = |secret: &str| format!("[[tokens]]\nname = \"n\"\ntoken = \"{secret}\"\nscopes = [\"read\"]\n");
    let tls = format!("tls_cert = {certificate:?}\ntls_key = {key:?}\n");
    std::fs::write(&file, format!("{tls}{}", token("first"))).unwrap();
    let flags = ["serve", "--listen", "0.0.0.0:0", "--store", "memory:", "--config", file.to_str().unwrap()];
    let log = directory.path().join("log");
    let (mut child, address, _) = start(dwell(&flags).stderr(File::create(&log).unwrap()));
    let status = |token: &str| {
        let here = ([127, 0, 0, 1], address.port()).into();
        ask(&mut connect(here, &authority, None, "").unwrap(), "/v1/info", token).unwrap()
    };
    for (text, reason) in
        [(tls.clone(), "no token is set any more"), (token("second"), "TLS can be turned on or off by a restart only")]
    {
        std::fs::write(&file, text).unwrap();
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        until("it says why", || std::fs::read_to_string(&log).unwrap().contains(reason));
        assert_eq!((&*status("first"), &*status("second"), &*status("")), (OK, UNAUTHORIZED, UNAUTHORIZED));
    }
    // It listens on: what is right is taken the next time.
    std::fs::write(&file, format!("{tls}{}", token("second"))).unwrap();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    until("the new token holds", || status("second") == OK);
    assert_eq!(status("first"), UNAUTHORIZED);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Where nobody else can reach it, a server may do without.
#[test]
fn a_hang_up_may_take_the_last_token_of_a_server_for_this_machine() {
    let directory = temporary();
    let file = directory.path().join("dwell.toml");
    std::fs::write(&file, "token = \"secret\"\n").unwrap();
    let server = Server::with(&["--config", file.to_str().unwrap()]);
    server.get("/v1/info").problem(401, "unauthorized");
    std::fs::write(&file, "").unwrap();
    server.signal(Signal::HUP);
    until("everyone may talk", || server.get("/v1/info").status == 200);
}

#[test]
fn a_hang_up_reads_what_the_beanstalk_protocol_is_served_with_again() {
    let (old, new) = (Authority::new(), Authority::new());
    let directory = temporary();
    let (certificate, key) = old.write("localhost", directory.path());
    let ca = directory.path().join("clients.pem");
    std::fs::write(&ca, &old.pem).unwrap();
    let flags = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let beanstalk = ["--beanstalk", "127.0.0.1:0", "--beanstalk-client-ca", ca.to_str().unwrap()];
    let server = Server::with(&[&flags[..], &beanstalk].concat());
    let place = server.banner.lines().find_map(|line| line.strip_prefix("  beanstalk   ")).unwrap();
    let address: SocketAddr = place.split(' ').next().unwrap().parse().unwrap();
    let used = |stream: &mut Stream| -> Option<String> {
        stream.write_all(b"list-tube-used\r\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok().filter(|length| *length > 0).map(|_| line)
    };
    let talk = |authority: &Authority| used(&mut connect(address, authority, Some(authority), "")?);
    let mut stays = connect(address, &old, Some(&old), "").unwrap();
    assert_eq!(used(&mut stays).as_deref(), Some("USING default\r\n"));
    assert_eq!(talk(&new), None);
    new.write("localhost", directory.path());
    std::fs::write(&ca, &new.pem).unwrap();
    server.signal(Signal::HUP);
    until("new connections see the new ones", || talk(&new).is_some());
    assert_eq!(talk(&old), None);
    assert_eq!(used(&mut stays).as_deref(), Some("USING default\r\n"), "a connection that was there goes on");
}

#[test]
fn beanstalk_over_tls_is_for_clients_with_a_certificate() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let directory = temporary();
    let (certificate, key) = servers.write("localhost", directory.path());
    let ca = directory.path().join("clients.pem");
    std::fs::write(&ca, &clients.pem).unwrap();
    let flags = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--beanstalk", "0.0.0.0:0"];
    // To other machines: with certificates, or not at all.
    let ended = run(dwell(&serve).args(flags));
    assert!(ended.code == Some(78) && ended.stderr.contains("--beanstalk-client-ca"), "{ended:?}");
    let mut command = dwell(&serve);
    let command = command.args(flags).arg("--beanstalk-client-ca").arg(&ca).stderr(Stdio::null());
    let (mut child, banner) = start_any(command);
    let port = banner.lines().find_map(|line| line.strip_prefix("  beanstalk   0.0.0.0:")).unwrap();
    let address: SocketAddr = ([127, 0, 0, 1], port.split(' ').next().unwrap().parse().unwrap()).into();
    let talk = |shows: Option<&Authority>| -> Option<String> {
        let mut stream = BufReader::new(connect(address, &servers, shows, "")?);
        stream.get_mut().write_all(b"put 0 0 60 2\r\nhi\r\nreserve\r\nquit\r\n").ok()?;
        let mut answer = String::new();
        // An end that is said: one that is not would be an error.
        while stream.read_line(&mut answer).ok()? > 0 {}
        Some(answer)
    };
    assert_eq!(talk(Some(&clients)).as_deref(), Some("INSERTED 1\r\nRESERVED 1 2\r\nhi\r\n"));
    assert_eq!(talk(None), None, "without a certificate");
    assert_eq!(talk(Some(&Authority::new())), None, "with one that nobody knows");
    assert_eq!(
        talk(Some(&clients)).as_deref(),
        Some("INSERTED 2\r\nRESERVED 1 2\r\nhi\r\n"),
        "the first was given back"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn files_that_make_no_sense_are_refused_by_name() {
    let directory = temporary();
    let (certificate, key) = Authority::new().write("localhost", directory.path());
    let other = temporary();
    let (_, other_key) = Authority::new().write("localhost", other.path());
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let nowhere = directory.path().join("nowhere.pem");
    for (flags, reason) in [
        (vec![("--tls-cert", &certificate)], "tls_cert needs tls_key"),
        (vec![("--tls-key", &key)], "tls_key needs tls_cert"),
        (vec![("--beanstalk-client-ca", &certificate)], "needs tls_cert and tls_key"),
        (vec![("--tls-cert", &nowhere), ("--tls-key", &key)], "nowhere.pem"),
        (vec![("--tls-cert", &certificate), ("--tls-key", &nowhere)], "nowhere.pem"),
        (vec![("--tls-cert", &empty), ("--tls-key", &key)], "empty.pem: has no certificate in it"),
        (vec![("--tls-cert", &certificate), ("--tls-key", &empty)], "empty.pem"),
        (vec![("--tls-cert", &certificate), ("--tls-key", &certificate)], "cert.pem"),
        (vec![("--tls-cert", &certificate), ("--tls-key", &other_key)], "key.pem: is not the key of"),
        (
            vec![("--tls-cert", &certificate), ("--tls-key", &key), ("--beanstalk-client-ca", &empty)],
            "empty.pem: has no certificate in it",
        ),
    ] {
        let mut command = dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
        for (flag, file) in &flags {
            command.arg(flag).arg(file);
        }
        let ended = run(&mut command);
        assert!(ended.code == Some(78) && ended.stderr.contains(reason), "{flags:?}: {ended:?}");
    }
}
