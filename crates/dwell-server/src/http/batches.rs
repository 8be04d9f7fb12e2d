//! Many jobs at once: put, cancel. Each item is judged on its own; malformed JSON refuses the whole request.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use dwell_core::{CancelItem, IfExists, JobId, JobRef, NewId, NewJob, PutError, PutOutcome, TopicName, limits};
use dwell_wire::cancel::{CancelJobs, JobName};
use dwell_wire::json::{Fields, read_list};
use dwell_wire::put::{Named, Outcome, PutJob, PutJobs, PutJobsAnswer, PutResult};
use dwell_wire::settle::{ItemResult, ItemResults};
use dwell_wire::{Code, Malformed, Problem};

use super::access::Who;
use super::answer::{Answer, Failure, ok};
use super::body::Text;
use super::jobs::{Names, fresh_id};
use super::query::Query;
use super::read::{self, Bounds, Mistakes, Naming};
use super::{Shared, body, show};

/// Puts many jobs, durable together; each is judged on its own, in order.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "putJobs", tag = "jobs",
    request_body = PutJobs,
    responses((status = 200, description = "What became of each, in order", body = PutJobsAnswer)),
)]
pub(super) async fn put_jobs(State(app): State<Shared>, who: Who, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    let bounds = app.bounds(request.headers());
    let text = body::read(&app, request).await?;
    let bytes = text.bytes.len();
    let items =
        body::decode(bytes, move || read_items(&text, "jobs", |fields| batch_job(fields, &bounds, &who))).await??;
    let (jobs, mut results) = sort_out(items, Names::of, put_refused);
    let outcomes = app.store.put(jobs).await?;
    body::decode(bytes, move || {
        results.fill(outcomes, |names, outcome| put_result(&names, outcome));
        ok(&PutJobsAnswer { results: results.done })
    })
    .await?
}

fn batch_job(mut fields: Fields<'_>, bounds: &Bounds, who: &Who) -> Result<NewJob, Failure> {
    let put = PutJob::read(&mut fields, Named::ByTopicAndId);
    let mut mistakes = Mistakes(fields.done());
    let topic = match &put.topic {
        Some(name) => read::own_topic(&mut mistakes, name),
        None => missing(&mut mistakes, "topic"),
    };
    if let Some(topic) = &topic {
        who.check(topic)?;
    }
    let id = match &put.id {
        Some(id) => read::own_id(&mut mistakes, "id", id).map(NewId::Named),
        None => Some(fresh_id()),
    };
    let naming = topic.zip(id).map(|(topic, id)| Naming { topic, id, if_exists: IfExists::Reject });
    read::new_job(put, naming, mistakes, bounds)
}

/// Notes that a field is missing, unless something else is wrong with it already.
fn missing<T>(mistakes: &mut Mistakes, field: &str) -> Option<T> {
    if !mistakes.0.iter().any(|mistake| mistake.field == field) {
        mistakes.note(field, "is missing");
    }
    None
}

fn put_result(names: &Names, outcome: Result<PutOutcome, PutError>) -> PutResult {
    let (outcome, due_at, version) = match outcome {
        Ok(PutOutcome::Created(receipt)) => (Outcome::Created, show::instant(receipt.due_at), receipt.version.get()),
        Ok(PutOutcome::Replaced(receipt)) => (Outcome::Replaced, show::instant(receipt.due_at), receipt.version.get()),
        Ok(PutOutcome::Kept(found)) => {
            let job = show::kept(found);
            (Outcome::Kept, job.due_at, job.version)
        }
        Err(error) => return put_refused(Failure::from(error).into_problem()),
    };
    PutResult {
        status: if outcome == Outcome::Created { 201 } else { 200 },
        outcome: Some(outcome),
        topic: Some(names.topic.to_string()),
        id: Some(names.id.to_string()),
        due_at: Some(due_at),
        version: Some(version),
        ..PutResult::default()
    }
}

fn put_refused(problem: Problem) -> PutResult {
    let Problem { status, code, detail, errors, .. } = problem;
    PutResult { status, code: Some(code), detail: Some(detail), errors, ..PutResult::default() }
}

/// Cancels many jobs; each is judged on its own.
#[utoipa::path(
    post, path = "/v1/cancel", operation_id = "cancelJobs", tag = "jobs",
    request_body = CancelJobs,
    responses((status = 200, description = "What became of each, in order: 204 if cancelled", body = ItemResults)),
)]
pub(super) async fn cancel_jobs(State(app): State<Shared>, who: Who, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    let text = body::read(&app, request).await?;
    let items = body::decode(text.bytes.len(), move || read_items(&text, "jobs", |fields| cancel_item(fields, &who)));
    let items = items.await??;
    let (items, mut results) = sort_out(items, |_| (), refused);
    let outcomes = app.store.cancel(items).await?;
    results.fill(outcomes, |(), outcome| match outcome {
        Ok(()) => ItemResult::ok(204),
        Err(error) => refused(Failure::from(error).into_problem()),
    });
    ok(&ItemResults { results: results.done })
}

fn cancel_item(mut fields: Fields<'_>, who: &Who) -> Result<CancelItem, Failure> {
    let name = JobName::read(&mut fields);
    let mut mistakes = Mistakes(fields.done());
    let job = name.and_then(|name| {
        let topic = mistakes.take("topic", TopicName::new(&name.topic));
        let id = mistakes.take("id", JobId::new(&name.id));
        topic.zip(id)
    });
    mistakes.none()?;
    let (topic, id) = job.ok_or_else(|| Failure::new(Code::Internal, "a job without a name"))?;
    who.check(&topic)?;
    Ok(CancelItem::new(JobRef::Named(topic, id)))
}

/// What became of an item that was refused.
pub(super) fn refused(problem: Problem) -> ItemResult {
    let Problem { status, code, detail, errors, .. } = problem;
    ItemResult { status, code: Some(code), detail: Some(detail), errors }
}

/// Reads the items of a batch, each of which may be wrong in itself.
pub(super) fn read_items<T>(
    text: &Text,
    name: &'static str,
    mut read: impl FnMut(Fields<'_>) -> Result<T, Failure>,
) -> Result<Vec<Result<T, Problem>>, Failure> {
    let mut items = Vec::new();
    let not_an_object = || Failure::new(Code::InvalidRequest, "an item must be a JSON object");
    let count = read_list(&text.bytes, name, limits::MAX_BATCH, |fields| {
        let item = fields.ok_or_else(not_an_object).and_then(&mut read);
        items.push(item.map_err(Failure::into_problem));
    });
    match count {
        Ok(count) if count > limits::MAX_BATCH => {
            let detail = format!("the batch has {count} items; at most {} are allowed", limits::MAX_BATCH);
            Err(Failure::new(Code::TooLarge, detail))
        }
        Ok(_) => Ok(items),
        Err(Malformed(detail)) => Err(Failure::new(Code::InvalidRequest, detail)),
    }
}

/// Results of a batch while the store has yet to answer for some of its items.
pub(super) struct Results<N, R> {
    pub(super) done: Vec<R>,
    open: Vec<(usize, N)>,
}

/// Parts the items that go to the store from those that are refused already.
pub(super) fn sort_out<T, N, R: Default>(
    items: Vec<Result<T, Problem>>,
    names: impl Fn(&T) -> N,
    refused: impl Fn(Problem) -> R,
) -> (Vec<T>, Results<N, R>) {
    let mut results = Results { done: Vec::with_capacity(items.len()), open: Vec::with_capacity(items.len()) };
    let mut good = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        results.done.push(match item {
            Ok(item) => {
                results.open.push((index, names(&item)));
                good.push(item);
                R::default()
            }
            Err(problem) => refused(problem),
        });
    }
    (good, results)
}

impl<N, R> Results<N, R> {
    /// Puts the store's answers in their places.
    pub(super) fn fill<A>(&mut self, answers: Vec<A>, result: impl Fn(N, A) -> R) {
        for ((index, names), answer) in self.open.drain(..).zip(answers) {
            self.done[index] = result(names, answer);
        }
    }
}
