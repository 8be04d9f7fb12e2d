//! In place of `otlp` in a build without it: settings that need it are refused, never left undone.

use std::fmt;
use std::sync::Arc;

use dwell_server::Tracer;
use dwell_server::metrics::Metrics;

use super::settings::Settings;
use crate::exit::Exit;

const ABSENT: &str = "needs a build with the feature \"otlp\", which this one has not; the image has it, and so has \
                      what `cargo build --release --features otlp` makes";

/// There is none.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {}

impl Endpoint {
    pub(super) fn parse(_text: &str) -> Result<Self, String> {
        Err(ABSENT.to_owned())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

pub(super) fn ratio(_text: &str) -> Result<f64, String> {
    Err(ABSENT.to_owned())
}

/// There is none.
pub(super) enum Exporter {}

#[expect(clippy::unnecessary_wraps, reason = "it is called as the other is")]
pub(super) fn start(settings: &Settings, _metrics: &Arc<Metrics>) -> Result<Option<(Tracer, Exporter)>, Exit> {
    match &settings.otlp_endpoint {
        None => Ok(None),
        Some(never) => match *never {},
    }
}

impl Exporter {
    #[expect(clippy::unused_async, reason = "it is called as the other is")]
    pub(super) async fn finish(self) {
        match self {}
    }
}
