//! Settling leases: many at once, or one by its path.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::{Found, JobRef, LeaseLost, LeaseToken, Lookup, Phase, Settle};
use dwell_wire::json::{Fields, read_object};
use dwell_wire::settle::{ItemResult, ItemResults, SettleItem, SettleItems, Terms, Verb};
use dwell_wire::{Code, Problem};

use super::access::Who;
use super::answer::{Answer, Failure, ok};
use super::batches::{read_items, refused, sort_out};
use super::jobs::only;
use super::names::LeasePath;
use super::query::Query;
use super::read::{self, Mistakes};
use super::{App, Shared, body};

/// Jobs looked up at once: each comes with its body.
const JUDGED_AT_ONCE: usize = 64;

/// Settles many leases; each is judged on its own, in order.
#[utoipa::path(
    post, path = "/v1/settle", operation_id = "settle", tag = "consuming",
    request_body = SettleItems,
    responses((status = 200, description = "What became of each, in order", body = ItemResults)),
)]
pub(super) async fn settle(State(app): State<Shared>, who: Who, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let items = body::decode(text.bytes.len(), move || read_items(&text, "items", settle_item)).await??;
    let items = judge(&app, &who, items).await?;
    let (items, mut results) = sort_out(items, |_| (), refused);
    let outcomes = app.store.settle(items).await?;
    results.fill(outcomes, |(), outcome| match outcome {
        Ok(()) => ItemResult::ok(200),
        Err(error) => refused(Failure::from(error).into_problem()),
    });
    ok(&ItemResults { results: results.done })
}

/// Refuses the leases of topics that are not those of whoever asks.
///
/// Whoever shows the very token of such a lease knows of it, and is told that it is not for them. With any other token it
/// is a lease that is lost, as if the job were not there. A number belongs to one topic for ever, so what is judged here
/// still holds when the store settles.
async fn judge(
    app: &App,
    who: &Who,
    mut items: Vec<Result<Settle, Problem>>,
) -> Result<Vec<Result<Settle, Problem>>, Failure> {
    if who.topics().is_none() {
        return Ok(items);
    }
    for items in items.chunks_mut(JUDGED_AT_ONCE) {
        let numbers = items.iter().flatten().map(|item| Lookup::Job(JobRef::Number(item.token.number))).collect();
        let found = app.store.get(numbers).await?;
        let shown = items.iter_mut().filter(|item| item.is_ok());
        for (item, found) in shown.zip(found) {
            let Ok(Settle { token, .. }) = item else { continue };
            let Some(Found::Live(view)) = found else { continue };
            let Err(forbidden) = who.check(&view.job.topic) else { continue };
            let is_held = matches!(&view.job.phase, Phase::Leased(lease) if lease.token == *token);
            *item = Err(if is_held { forbidden } else { Failure::from(LeaseLost) }.into_problem());
        }
    }
    Ok(items)
}

fn settle_item(mut fields: Fields<'_>) -> Result<Settle, Failure> {
    let item = SettleItem::read(&mut fields);
    let mut mistakes = Mistakes(fields.done());
    let read = item.map(|item| (item.token, read::verdict(item.verb, item.terms, &mut mistakes)));
    mistakes.none()?;
    let (token, verdict) = read.ok_or_else(|| Failure::new(Code::Internal, "an item without a token"))?;
    Ok(Settle::new(lease_token(&token)?, verdict))
}

/// A token; what is none is a lease that is lost.
fn lease_token(text: &str) -> Result<LeaseToken, Failure> {
    text.parse().map_err(|_| Failure::from(LeaseLost))
}

/// Settles one lease: `ack`, `nack`, `release`, `bury` or `extend`.
#[utoipa::path(
    post, path = "/v1/leases/{token}/{verb}", operation_id = "settleLease", tag = "consuming",
    params(("token" = String, Path), ("verb" = Verb, Path)),
    request_body = Option<Terms>,
    responses((status = 200, description = "Settled", body = ItemResult)),
)]
pub(super) async fn settle_lease(
    State(app): State<Shared>,
    who: Who,
    path: LeasePath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    let verb = Verb::WORDS.iter().find(|(word, _)| *word == path.verb).map(|(_, verb)| *verb);
    let Some(verb) = verb else {
        let detail = format!("a lease cannot be asked to {}; it knows ack, nack, release, bury and extend", path.verb);
        return Err(Failure::new(Code::NotFound, detail));
    };
    let text = body::read(&app, request).await?;
    let mut fields = read_object(&text.bytes)?;
    let terms = Terms::read(&mut fields, Some(verb));
    let mut mistakes = Mistakes(fields.done());
    let verdict = read::verdict(verb, terms, &mut mistakes);
    mistakes.none()?;
    let item = Settle::new(lease_token(&path.token)?, verdict);
    let item = only(judge(&app, &who, vec![Ok(item)]).await?)?.map_err(Failure::from)?;
    only(app.store.settle(vec![item]).await?)?.map_err(Failure::from)?;
    ok(&ItemResult::ok(200))
}
