//! Spans: what became of requests and deliveries, for whoever traces.
//!
//! A server that was told no [`Tracer`] makes none, and nothing is done for them. With one, a span is made of what belongs
//! to a sampled trace, and of a share of what belongs to none. A finished span is handed to [`Spans`], which never waits.

mod context;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use dwell_core::Job;
use tokio::time::Instant;

pub use context::{Context, SpanId, TraceId};

/// Takes finished spans.
pub trait Spans: Send + Sync {
    /// Takes one, at once: who has no room drops it.
    fn take(&self, span: Span);
}

/// Something that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Which one it is.
    pub context: Context,
    /// What it was part of.
    pub parent: Option<SpanId>,
    /// What it is called.
    pub name: String,
    /// Which end of a call it was.
    pub kind: Kind,
    /// When it started, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// What else it has to do with.
    pub links: Vec<Context>,
    /// Why it failed, if it did; there may be nothing to say.
    pub error: Option<String>,
}

/// Which end of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Dwell was called.
    Server,
    /// Dwell called.
    Client,
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Which spans are made, and where they go.
#[derive(Clone)]
pub struct Tracer {
    spans: Arc<dyn Spans>,
    /// A trace that begins here is sampled if its id, as a number, is not above this.
    most: Option<u64>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer that samples this share of traces that begin here, from 0 to 1. Of the others their beginning decides.
    pub fn new(spans: Arc<dyn Spans>, ratio: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as casts from floats saturate")]
        let most = (ratio > 0.0).then_some((ratio * u64::MAX as f64) as u64);
        Self { spans, most }
    }

    /// Starts what is `context`, and part of `parent`, if it is sampled.
    pub(crate) fn start(&self, context: Context, parent: Option<Context>) -> Option<Started> {
        let parent = parent.map(|parent| parent.span);
        let spans = || Arc::clone(&self.spans);
        let now = Instant::now();
        context.is_sampled().then(|| Started { spans: spans(), context, parent, start: wall(), since: now })
    }
}

/// The span that put a job, if it said so.
pub(crate) fn of_job(job: &Job) -> Option<Context> {
    let given = job.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
    given.and_then(|(_, value)| Context::parse(value))
}

/// What part of `parent` is: a new trace if there is none, sampled if the tracer wants it.
pub(crate) fn part_of(parent: Option<Context>, tracer: Option<&Tracer>) -> Context {
    let Some(parent) = parent else {
        let root = Context::root();
        let is_wanted = tracer.and_then(|tracer| tracer.most).is_some_and(|most| root.number() <= most);
        return root.sampled(is_wanted);
    };
    parent.child()
}

/// A span under way.
pub(crate) struct Started {
    spans: Arc<dyn Spans>,
    context: Context,
    parent: Option<SpanId>,
    start: u64,
    since: Instant,
}

/// What a span turned out to be.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    pub(crate) links: Vec<Context>,
    pub(crate) error: Option<String>,
}

impl Started {
    /// It is over.
    pub(crate) fn end(self, ended: Ended) {
        let Self { spans, context, parent, start, since } = self;
        let took = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Ended { name, kind, attributes, links, error } = ended;
        let end = start.saturating_add(took);
        spans.take(Span { context, parent, name, kind, start, end, attributes, links, error });
    }
}

#[expect(clippy::disallowed_methods, reason = "spans of several machines are laid side by side by their clocks")]
fn wall() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Span>>);

    impl Spans for Kept {
        fn take(&self, span: Span) {
            self.0.lock().unwrap().push(span);
        }
    }

    fn tracer(ratio: f64) -> (Arc<Kept>, Tracer) {
        let kept = Arc::new(Kept::default());
        (Arc::clone(&kept), Tracer::new(kept, ratio))
    }

    #[test]
    fn whoever_began_a_trace_decides_about_it() {
        for (flags, ratio, is_wanted) in [("01", 0.0, true), ("00", 1.0, false), ("03", 0.0, true)] {
            let (_, tracer) = tracer(ratio);
            let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            let parent = Context::parse(&text);
            let context = part_of(parent, Some(&tracer));
            assert_eq!(context.trace, parent.unwrap().trace);
            assert_ne!(context.span, parent.unwrap().span);
            assert_eq!(tracer.start(context, parent).is_some(), is_wanted, "{flags}");
        }
    }

    #[test]
    fn of_traces_that_begin_here_a_share_is_sampled() {
        let sampled = |tracer: Option<&Tracer>| (0..1_000).filter(|_| part_of(None, tracer).is_sampled()).count();
        assert_eq!(sampled(None), 0);
        assert_eq!(sampled(Some(&tracer(0.0).1)), 0);
        assert_eq!(sampled(Some(&tracer(1.0).1)), 1_000);
        let some = sampled(Some(&tracer(0.25).1));
        assert!((150..350).contains(&some), "{some}");
    }

    #[tokio::test]
    async fn a_span_says_what_it_was_and_how_long() {
        let (kept, tracer) = tracer(1.0);
        let context = part_of(None, Some(&tracer));
        let started = tracer.start(context, None).unwrap();
        let attributes = vec![("a", Value::from(7_u32)), ("b", Value::from("c"))];
        let (name, links) = ("name".to_owned(), vec![Context::root()]);
        let ended = Ended { name, kind: Kind::Client, attributes: attributes.clone(), links, error: None };
        started.end(ended);
        let spans = kept.0.lock().unwrap();
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((span.context, span.parent, &span.attributes), (context, None, &attributes));
        assert!(span.start > 1_700_000_000_000_000_000 && span.end >= span.start, "{span:?}");
    }
}
