//! A receiver of pushed jobs: a real HTTP server that says what it is told to say and shows what it got.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver as Inbox, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Nothing that a test waits for takes longer, unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came in.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn job(&self) -> &str {
        self.header("dwell-job-id").unwrap()
    }

    pub(super) fn attempt(&self) -> u32 {
        self.header("dwell-attempt").unwrap().parse().unwrap()
    }
}

/// What to say.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// A whole answer: status, headers, body.
    Status(u16, Vec<(&'static str, String)>, &'static str),
    /// A good status and a body that never ends.
    Endless,
    /// Nothing, for as long as the other end waits.
    Hang,
    /// Nothing; the connection is cut.
    Reset,
}

impl Reply {
    pub(super) fn status(status: u16) -> Self {
        Self::Status(status, Vec::new(), "said the receiver")
    }
}

type Says = Box<dyn FnMut(&Request) -> Reply + Send>;

/// A receiver on a port of its own.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    got: Inbox<Request>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Receiver {
    /// One that says this to everything.
    pub(super) fn always(status: u16) -> Self {
        Self::new(move |_| Reply::status(status))
    }

    /// One that says what it is told.
    pub(super) fn new(says: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (inbox, got) = mpsc::channel();
        let says: Arc<Mutex<Says>> = Arc::new(Mutex::new(Box::new(says)));
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let open = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                open.lock().unwrap().push(stream.try_clone().unwrap());
                let (says, inbox) = (Arc::clone(&says), inbox.clone());
                thread::spawn(move || serve(stream, &says, &inbox));
            }
        });
        Self { address, got, connections }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next request.
    #[track_caller]
    pub(super) fn next(&self) -> Request {
        match self.got.recv_timeout(PATIENCE) {
            Ok(request) => request,
            Err(error) => panic!("no request came: {error}"),
        }
    }

    /// What has come by now and was not asked for.
    pub(super) fn rest(&self) -> Vec<Request> {
        self.got.try_iter().collect()
    }

    /// Whether nothing comes for a while. Only for what must not happen: time alone can tell.
    pub(super) fn is_quiet(&self, time: Duration) -> bool {
        matches!(self.got.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        for connection in self.connections.lock().unwrap().iter() {
            drop(connection.shutdown(std::net::Shutdown::Both));
        }
    }
}

fn serve(stream: TcpStream, says: &Mutex<Says>, inbox: &Sender<Request>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let reply = says.lock().unwrap()(&request);
        if inbox.send(request).is_err() {
            return;
        }
        match reply {
            Reply::Status(status, headers, body) => {
                let headers = headers.iter().map(|(name, value)| [name, ": ", value.as_str(), "\r\n"].concat());
                let headers = headers.collect::<String>();
                let length = body.len();
                let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
                if stream.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
            Reply::Endless => {
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
                let mut going = stream.write_all(head.as_bytes()).is_ok();
                while going {
                    going = stream.write_all(&[b'x'; 16 << 10]).is_ok();
                }
                return;
            }
            Reply::Hang => {
                // Until the other end gives up.
                drop(reader.read(&mut [0; 1]));
                return;
            }
            Reply::Reset => {
                drop(stream.shutdown(std::net::Shutdown::Both));
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, text)| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body })
}
