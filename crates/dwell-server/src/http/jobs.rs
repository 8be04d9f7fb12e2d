//! One job: put, create, get, change, cancel.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use dwell_core::{CancelItem, ChangeItem, IfExists, JobId, JobRef, Lookup, NewId, NewJob, PutOutcome, TopicName};
use dwell_wire::Code;
use dwell_wire::change::ChangeJob;
use dwell_wire::job::Job;
use dwell_wire::json::read_object;
use dwell_wire::put::{Named, Outcome, PutJob};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use super::answer::{Answer, Failure, json, no_content, ok};
use super::names::{JobPath, TopicPath};
use super::query::Query;
use super::read::{self, Mistakes, Naming};
use super::{App, Shared, body, show};

/// Puts a job under your own id, or replaces the live one of that id: new due time, new body, everything.
#[utoipa::path(
    put, path = "/v1/topics/{topic}/jobs/{id}", operation_id = "putJob", tag = "jobs",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("id" = dwell_wire::job::JobId, Path),
        ("force" = Option<bool>, Query, description = "Replace even a job that a consumer holds"),
        ("If-Match" = Option<String>, Header, pattern = r#"^"[0-9]{1,16}"$"#, description = "Only if the job has this version"),
    ),
    request_body = Option<PutJob>,
    responses(
        (status = 200, description = "Replaced, or kept", body = Job, headers(("ETag" = String, description = "Its version"))),
        (status = 201, description = "Created", body = Job, headers(("ETag" = String, description = "Its version"))),
    ),
)]
pub(super) async fn put_job(State(app): State<Shared>, JobPath(topic, id): JobPath, request: Request<Body>) -> Answer {
    let mut query = Query::of(request.uri());
    let force = query.flag("force");
    query.done()?;
    let if_match = read::if_match(request.headers())?;
    let bounds = app.bounds(request.headers());
    let text = body::read(&app, request).await?;
    let new = body::decode(text.bytes.len(), move || {
        let mut fields = read_object(&text.bytes)?;
        let put = PutJob::read(&mut fields, Named::ByPath);
        let mut mistakes = Mistakes(fields.done());
        read::check_own(&mut mistakes, "topic", topic.is_own());
        read::check_own(&mut mistakes, "id", id.is_own());
        let naming = Naming { topic, id: NewId::Named(id), if_exists: IfExists::Replace };
        read::new_job(put, Some(naming), mistakes, &bounds)
    });
    put(&app, NewJob { if_match, force, ..new.await?? }).await.map(|(response, _)| response)
}

/// Puts a job under an id in its body, or under one made by the server.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/jobs", operation_id = "createJob", tag = "jobs",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("Idempotency-Key" = Option<String>, Header,
            description = "Without an id: this is the id, and a job of that id is kept"),
    ),
    request_body = Option<dwell_wire::put::CreateJob>,
    responses(
        (status = 200, description = "Replaced, or kept", body = Job, headers(("ETag" = String, description = "Its version"))),
        (status = 201, description = "Created", body = Job, headers(
            ("ETag" = String, description = "Its version"), ("Location" = String, description = "Where it is"))),
    ),
)]
pub(super) async fn create_job(
    State(app): State<Shared>,
    TopicPath(topic): TopicPath,
    request: Request<Body>,
) -> Answer {
    Query::of(request.uri()).done()?;
    let key = request.headers().get("idempotency-key").map(|key| key.to_str().map(str::to_owned));
    let bounds = app.bounds(request.headers());
    let text = body::read(&app, request).await?;
    let new = body::decode(text.bytes.len(), move || {
        let mut fields = read_object(&text.bytes)?;
        let put = PutJob::read(&mut fields, Named::ById);
        let mut mistakes = Mistakes(fields.done());
        read::check_own(&mut mistakes, "topic", topic.is_own());
        let (id, if_exists) = match (&put.id, key) {
            (Some(id), _) => (read::own_id(&mut mistakes, "id", id).map(NewId::Named), IfExists::Reject),
            (None, Some(Ok(key))) => {
                (read::own_id(&mut mistakes, "Idempotency-Key", &key).map(NewId::Named), IfExists::Keep)
            }
            (None, Some(Err(_))) => {
                mistakes.note("Idempotency-Key", "must be printable ASCII");
                (None, IfExists::Keep)
            }
            (None, None) => (Some(fresh_id()), IfExists::Reject),
        };
        let naming = id.map(|id| Naming { topic, id, if_exists });
        read::new_job(put, naming, mistakes, &bounds)
    });
    let (mut response, job) = put(&app, new.await??).await?;
    let location = format!("/v1/topics/{}/jobs/{}", encoded(&job.topic), encoded(&job.id));
    let location = HeaderValue::from_str(&location).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// An id that no other job has.
pub(super) fn fresh_id() -> NewId {
    let mut buffer = Uuid::encode_buffer();
    let id: &str = Uuid::now_v7().hyphenated().encode_lower(&mut buffer);
    NewId::Fresh(JobId::new(id).expect("a UUID is a good id"))
}

/// A part of a path.
fn encoded(name: &str) -> impl std::fmt::Display + '_ {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(name, ENCODED)
}

async fn put(app: &App, new: NewJob) -> Result<(Response<Body>, Job), Failure> {
    let named = Names::of(&new);
    let outcome = only(app.store.put(vec![new]).await?)?;
    let job = match outcome.map_err(Failure::from)? {
        PutOutcome::Created(receipt) => named.job(&receipt, Outcome::Created),
        PutOutcome::Replaced(receipt) => named.job(&receipt, Outcome::Replaced),
        PutOutcome::Kept(found) => show::kept(found),
    };
    let status = if job.outcome == Some(Outcome::Created) { StatusCode::CREATED } else { StatusCode::OK };
    let response = with_version(json(status, &job)?, job.version);
    Ok((response, job))
}

/// What a put is called, kept for its answer.
pub(super) struct Names {
    pub(super) topic: TopicName,
    pub(super) id: JobId,
    priority: u32,
}

impl Names {
    pub(super) fn of(new: &NewJob) -> Self {
        let id = match &new.id {
            NewId::Named(id) | NewId::Fresh(id) => id.clone(),
            NewId::FromNumber => unreachable!("a job put over HTTP always has an id"),
        };
        Self { topic: new.topic.clone(), id, priority: new.priority.0 }
    }

    fn job(&self, receipt: &dwell_core::Receipt, outcome: Outcome) -> Job {
        show::put_job(self.topic.to_string(), self.id.to_string(), self.priority, receipt, outcome)
    }
}

/// The job, with all that it carries.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/jobs/{id}", operation_id = "getJob", tag = "jobs",
    params(("topic" = dwell_wire::job::TopicName, Path), ("id" = dwell_wire::job::JobId, Path)),
    responses((status = 200, description = "The job", body = Job, headers(("ETag" = String, description = "Its version")))),
)]
pub(super) async fn get_job(State(app): State<Shared>, JobPath(topic, id): JobPath, request: Request<Body>) -> Answer {
    Query::of(request.uri()).done()?;
    body::none(&app, request).await?;
    let found = only(app.store.get(vec![Lookup::Job(JobRef::Named(topic, id))]).await?)?;
    let job = show::found(found.ok_or_else(no_job)?);
    Ok(with_version(ok(&job)?, job.version))
}

/// Changes or moves a job; what is not named stays. `"delay": 0` fires it now; a buried one is revived by a due time.
#[utoipa::path(
    patch, path = "/v1/topics/{topic}/jobs/{id}", operation_id = "changeJob", tag = "jobs",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("id" = dwell_wire::job::JobId, Path),
        ("force" = Option<bool>, Query, description = "Change even a job that a consumer holds; its lease is lost"),
        ("If-Match" = Option<String>, Header, pattern = r#"^"[0-9]{1,16}"$"#, description = "Only if the job has this version"),
    ),
    request_body = Option<ChangeJob>,
    responses((status = 200, description = "The job as it is now", body = Job,
        headers(("ETag" = String, description = "Its version")))),
)]
pub(super) async fn change_job(
    State(app): State<Shared>,
    JobPath(topic, id): JobPath,
    request: Request<Body>,
) -> Answer {
    let mut query = Query::of(request.uri());
    let force = query.flag("force");
    query.done()?;
    let if_match = read::if_match(request.headers())?;
    let bounds = app.bounds(request.headers());
    let text = body::read(&app, request).await?;
    let change = body::decode(text.bytes.len(), move || {
        let mut fields = read_object(&text.bytes)?;
        let change = ChangeJob::read(&mut fields);
        read::change(change, Mistakes(fields.done()), &bounds)
    });
    let item = ChangeItem { job: JobRef::Named(topic, id), change: change.await??, if_match, force };
    let view = only(app.store.change(vec![item]).await?)?.map_err(Failure::from)?;
    let job = show::whole_job(view);
    Ok(with_version(ok(&job)?, job.version))
}

/// Cancels a job: after 204 it will not be delivered.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}/jobs/{id}", operation_id = "cancelJob", tag = "jobs",
    params(
        ("topic" = dwell_wire::job::TopicName, Path),
        ("id" = dwell_wire::job::JobId, Path),
        ("force" = Option<bool>, Query, description = "Cancel even a job that a consumer holds"),
        ("If-Match" = Option<String>, Header, pattern = r#"^"[0-9]{1,16}"$"#, description = "Only if the job has this version"),
    ),
    responses((status = 204, description = "It was there and will not be delivered")),
)]
pub(super) async fn cancel_job(
    State(app): State<Shared>,
    JobPath(topic, id): JobPath,
    request: Request<Body>,
) -> Answer {
    let mut query = Query::of(request.uri());
    let force = query.flag("force");
    query.done()?;
    let if_match = read::if_match(request.headers())?;
    body::none(&app, request).await?;
    let item = CancelItem { job: JobRef::Named(topic, id), if_match, force };
    only(app.store.cancel(vec![item]).await?)?.map_err(Failure::from)?;
    Ok(no_content())
}

fn no_job() -> Failure {
    Failure::from(dwell_core::CancelError::NotFound)
}

/// The one answer to a batch of one.
pub(super) fn only<T>(answers: Vec<T>) -> Result<T, Failure> {
    answers.into_iter().next().ok_or_else(|| Failure::new(Code::Internal, "the store gave no answer to one of one"))
}

fn with_version(mut response: Response<Body>, version: u64) -> Response<Body> {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
