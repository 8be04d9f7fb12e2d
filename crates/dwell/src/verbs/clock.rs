//! The server's time, as it passes here.

use std::time::Duration;

use dwell_client::Client;
use tokio::time::Instant;

use super::server;
use crate::exit::Exit;

/// How often the server is asked; the quickest answer is believed.
const QUESTIONS: usize = 5;

/// Time that passes has passed by then.
const A_MOMENT: Duration = Duration::from_millis(20);

/// The server's time. Never behind it by more than a millisecond: lateness is rather shown too long than too short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    server: u64,
    here: Instant,
}

impl Clock {
    pub(super) async fn read(client: &Client) -> Result<Self, Exit> {
        let mut best = None;
        for _ in 0..QUESTIONS {
            let here = Instant::now();
            let server = server::now(client).await?.0;
            let took = here.elapsed();
            if best.is_none_or(|(_, before)| took < before) {
                best = Some((Self { server, here }, took));
            }
        }
        best.map(|(clock, _)| clock).ok_or_else(|| Exit::failure("the server does not tell its time"))
    }

    /// The same, of a server whose time passes: there is nothing to measure where it stands still.
    pub(super) async fn read_passing(client: &Client) -> Result<Self, Exit> {
        let clock = Self::read(client).await?;
        tokio::time::sleep(A_MOMENT).await;
        if server::now(client).await?.0 > clock.server {
            return Ok(clock);
        }
        Err(Exit::failure(
            "the server's time stands still until POST /v1/dev/clock moves it; start it without --dev-clock",
        ))
    }

    /// Microseconds since 1970.
    pub(super) fn micros(&self) -> u64 {
        let passed = u64::try_from(self.here.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.server.saturating_mul(1_000).saturating_add(passed)
    }
}
