//! A small HTTP client that says what it wants and shows what it got.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{HeaderMap, Request};

use crate::server::until;

/// Talks to one server.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    address: SocketAddr,
    authorization: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(Duration::from_secs(80)));
        Self { agent: config.build().into(), address, authorization: None }
    }

    /// The same, showing this token.
    pub(crate) fn showing(&self, token: &str) -> Self {
        Self { authorization: Some(format!("Bearer {token}")), ..self.clone() }
    }

    /// Sends whatever is to be sent.
    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answered = match body {
            Some(body) => self.agent.run(request.body(body).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut response = answered.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let bytes = response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap();
        Answer { status: response.status().as_u16(), headers: response.headers().clone(), bytes }
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], None)
    }

    /// Sends a JSON text, exactly as it stands here.
    #[track_caller]
    pub(crate) fn text(&self, method: &str, path: &str, text: &str) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], Some(text.as_bytes()))
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a request is written where it is sent")]
    pub(crate) fn put(&self, path: &str, value: Value) -> Answer {
        self.text("PUT", path, &value.to_string())
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a request is written where it is sent")]
    pub(crate) fn post(&self, path: &str, value: Value) -> Answer {
        self.text("POST", path, &value.to_string())
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a request is written where it is sent")]
    pub(crate) fn patch(&self, path: &str, value: Value) -> Answer {
        self.text("PATCH", path, &value.to_string())
    }

    /// Puts a job, which goes well, and answers what the server answered.
    #[track_caller]
    pub(crate) fn put_job(&self, topic: &str, id: &str, value: Value) -> Value {
        let answer = self.put(&job_path(topic, id), value);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json()
    }

    /// A job that is there.
    #[track_caller]
    pub(crate) fn job(&self, topic: &str, id: &str) -> Value {
        self.get(&job_path(topic, id)).ok(200)
    }

    /// A topic that is there.
    #[track_caller]
    pub(crate) fn topic(&self, topic: &str) -> Value {
        self.get(&format!("/v1/topics/{topic}")).ok(200)
    }

    /// The jobs that a lease call gets.
    #[track_caller]
    pub(crate) fn lease(&self, topic: &str, value: Value) -> Vec<Value> {
        self.post(&format!("/v1/topics/{topic}/lease"), value).list("jobs")
    }

    /// The one job that is ready.
    #[track_caller]
    pub(crate) fn lease_one(&self, topic: &str) -> Value {
        let mut jobs = self.lease(topic, json!({}));
        assert_eq!(jobs.len(), 1, "one job of {topic}");
        jobs.remove(0)
    }

    /// Settles a leased job by its path.
    #[track_caller]
    pub(crate) fn settle(&self, leased: &Value, verb: &str, value: Value) -> Answer {
        self.post(&format!("/v1/leases/{}/{verb}", text_of(&leased["token"])), value)
    }

    /// Moves the server's clock.
    #[track_caller]
    pub(crate) fn advance(&self, by: &str) {
        self.post("/v1/dev/clock", json!({ "advance": by })).ok(200);
    }

    /// The server's time, in milliseconds.
    #[track_caller]
    pub(crate) fn now(&self) -> i64 {
        millis(&self.get("/v1/dev/clock").ok(200)["now"])
    }

    /// Sends a request whose answer takes a while.
    pub(crate) fn later(&self, path: &str, value: Value) -> JoinHandle<Answer> {
        let (client, path) = (self.clone(), path.to_owned());
        thread::spawn(move || client.post(&path, value))
    }

    /// Waits until so many consumers wait for a topic that is there.
    #[track_caller]
    pub(crate) fn parked(&self, topic: &str, count: u64) {
        until("consumers wait", || self.topic(topic)["waiting"] == count);
    }

    /// Sends bytes as they are and reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {self:?}, {}", self.body()))
    }

    pub(crate) fn body(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// JSON with this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body());
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        self.json()
    }

    /// A 200 with a list under this name.
    #[track_caller]
    pub(crate) fn list(&self, name: &str) -> Vec<Value> {
        self.ok(200)[name].as_array().unwrap_or_else(|| panic!("no {name}: {}", self.body())).clone()
    }

    /// A 204.
    #[track_caller]
    pub(crate) fn empty(&self) {
        assert_eq!((self.status, self.body()), (204, String::new()));
    }

    /// A problem of this status and code, in the shape that every problem has.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body());
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!((&problem["status"], &problem["code"]), (&json!(status), &json!(code)), "{problem}");
        for field in ["type", "title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {problem}");
        }
        problem
    }

    /// A refused request, with a reason for this very field.
    #[track_caller]
    pub(crate) fn wrong(&self, field: &str) -> String {
        let problem = self.problem(400, "invalid_request");
        let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no errors: {problem}"));
        let found = errors.iter().find(|error| error["field"] == field);
        text_of(&found.unwrap_or_else(|| panic!("no error of {field}: {problem}"))["reason"]).to_owned()
    }
}

/// The path of a job whose names need no encoding.
pub(crate) fn job_path(topic: &str, id: &str) -> String {
    format!("/v1/topics/{topic}/jobs/{id}")
}

#[track_caller]
pub(crate) fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

#[track_caller]
pub(crate) fn number_of(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// An instant of an answer: RFC 3339, UTC, milliseconds.
#[track_caller]
pub(crate) fn millis(value: &Value) -> i64 {
    let text = text_of(value);
    assert!(text.len() == 24 && text.ends_with('Z') && &text[19..20] == ".", "{text}");
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// The ids of jobs, in order.
pub(crate) fn ids(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(|job| text_of(&job["id"])).collect()
}
