//! A collector: takes spans over a real socket and reads them with OpenTelemetry's own types.

use std::cell::RefCell;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
pub(crate) use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::client::Client;
use crate::receiver::{Receiver, Reply, Request};
use crate::server::{Server, until};

/// A collector on a port of its own.
pub(crate) struct Collector {
    pub(crate) receiver: Receiver,
    seen: RefCell<Vec<Span>>,
}

impl Collector {
    /// One that takes everything.
    pub(crate) fn new() -> Self {
        Self::that(|_| Reply::Status(200, Vec::new(), ""))
    }

    /// One that says what it is told.
    pub(crate) fn that(says: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        Self { receiver: Receiver::new(says), seen: RefCell::default() }
    }

    pub(crate) fn url(&self) -> String {
        self.receiver.url("")
    }

    /// A server that sends its spans here.
    pub(crate) fn server(&self, extra: &[&str]) -> Server {
        let url = self.url();
        Server::with(&[&["--otlp-endpoint", &url, "--allow-private-targets"], extra].concat())
    }

    /// The span of this name, once it is here. Each is found once.
    #[track_caller]
    pub(crate) fn span(&self, name: &str) -> Span {
        loop {
            let mut seen = self.seen.borrow_mut();
            if let Some(at) = seen.iter().position(|span| span.name == name) {
                return seen.remove(at);
            }
            seen.extend(spans_of(&decoded(&self.receiver.next())));
        }
    }

    /// The names of all others that have come.
    pub(crate) fn others(&self) -> Vec<String> {
        self.seen.borrow().iter().map(|span| span.name.clone()).collect()
    }
}

/// What a request to the collector says.
pub(crate) fn decoded(request: &Request) -> ExportTraceServiceRequest {
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    ExportTraceServiceRequest::decode(&request.body[..]).unwrap()
}

fn spans_of(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let scopes = request.resource_spans.iter().flat_map(|of_resource| &of_resource.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

/// Who sent it.
pub(crate) fn resource(request: &ExportTraceServiceRequest) -> Resource {
    request.resource_spans[0].resource.clone().unwrap()
}

/// What an attribute says, as text.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let mut found = attributes.iter().filter(|attribute| attribute.key == name);
    let value = found.next()?.value.clone()?.value?;
    assert!(found.next().is_none(), "{name} is there twice");
    match value {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name} is {other:?}"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// What a counter of the server says.
pub(crate) fn counter(client: &Client, name: &str) -> u64 {
    let text = client.get("/metrics").body();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

/// Waits until so many spans were dropped.
#[track_caller]
pub(crate) fn until_dropped(client: &Client, count: u64) {
    until("so many spans were dropped", || counter(client, "dwell_otlp_spans_dropped_total") == count);
}
