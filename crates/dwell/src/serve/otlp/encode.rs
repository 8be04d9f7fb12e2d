//! Spans as they travel.

use dwell_server::trace::{self, Context, Kind};
use prost::Message as _;

use super::messages::{
    AnyValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, Link, Resource, ResourceSpans, ScopeSpans,
    Span, SpanKind, Status, StatusCode, Value,
};

/// What Dwell is called in traces, unless `OTEL_SERVICE_NAME` says otherwise.
const SERVICE: &str = "dwell";

/// This server, as all its spans say it.
pub(super) fn resource() -> Resource {
    let service = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let text = |key: &'static str, text: String| key_value(key, trace::Value::Text(text));
    Resource {
        attributes: vec![
            text("service.name", service.unwrap_or_else(|| SERVICE.to_owned())),
            text("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            text("host.name", host),
        ],
    }
}

/// The body of a request with these spans, which are taken out.
pub(super) fn request(resource: &Resource, spans: &mut Vec<trace::Span>) -> Vec<u8> {
    let scope = InstrumentationScope { name: SERVICE.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = spans.drain(..).map(span).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource.clone()), scope_spans }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn span(span: trace::Span) -> Span {
    let error = |message| Status { message, code: StatusCode::Error.into() };
    let kind = match span.kind {
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
    };
    Span {
        trace_id: span.context.trace.to_vec(),
        span_id: span.context.span.to_vec(),
        parent_span_id: span.parent.map(Vec::from).unwrap_or_default(),
        name: span.name,
        kind: kind.into(),
        start_time_unix_nano: span.start,
        end_time_unix_nano: span.end,
        attributes: span.attributes.into_iter().map(|(key, value)| key_value(key, value)).collect(),
        links: span.links.into_iter().map(link).collect(),
        status: span.error.map(error),
        flags: span.context.flags().into(),
    }
}

fn link(context: Context) -> Link {
    Link { trace_id: context.trace.to_vec(), span_id: context.span.to_vec(), flags: context.flags().into() }
}

fn key_value(key: &'static str, value: trace::Value) -> KeyValue {
    let value = match value {
        trace::Value::Text(text) => Value::Text(text),
        trace::Value::Number(number) => Value::Int(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}
