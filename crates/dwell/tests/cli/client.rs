//! What the client can ask a real server and the command line does not, and lists of more than a page.

use dwell_client::wire::cancel::{CancelJobs, JobName};
use dwell_client::wire::change::{ChangeJob, Edit};
use dwell_client::wire::job::State;
use dwell_client::wire::lease::LeaseRequest;
use dwell_client::wire::put::{PutJob, PutJobs};
use dwell_client::wire::settle::Terms;
use dwell_client::wire::{Code, Duration};
use dwell_client::{Client, Guard, JobsQuery, TopicsQuery};

use crate::world::Server;

fn client(server: &Server) -> Client {
    Client::new(&server.url, None).unwrap()
}

fn job(topic: &str) -> PutJob<'_> {
    PutJob { topic: Some(topic.into()), ..PutJob::default() }
}

async fn lease(client: &Client, topic: &str) -> String {
    let wanted = LeaseRequest { topics: Some(vec![topic.into()]), ..LeaseRequest::default() };
    client.lease(&wanted).await.unwrap().remove(0).token.unwrap()
}

#[tokio::test]
async fn a_lease_is_settled_in_every_way() {
    let server = Server::start();
    let client = client(&server);
    client.put("t", "a", &PutJob::default(), Guard::default()).await.unwrap();

    let token = lease(&client, "t").await;
    client.extend(&token, &Terms { ttr: Some(Duration(3_600_000)), ..Terms::default() }).await.unwrap();
    client.release(&token, &Terms { priority: Some(5), ..Terms::default() }).await.unwrap();
    let released = client.get("t", "a").await.unwrap();
    assert_eq!((released.state, released.attempt, released.priority), (State::Ready, 0, Some(5)));

    let token = lease(&client, "t").await;
    client
        .nack(&token, &Terms { delay: Some(Duration(0)), error: Some("odd".into()), ..Terms::default() })
        .await
        .unwrap();
    assert_eq!(client.get("t", "a").await.unwrap().last_error.as_deref(), Some("odd"));

    let token = lease(&client, "t").await;
    client.bury(&token, &Terms { reason: Some("enough".into()), ..Terms::default() }).await.unwrap();
    let buried = client.get("t", "a").await.unwrap();
    assert_eq!((buried.state, buried.buried_reason.as_deref()), (State::Buried, Some("enough")));
    assert_eq!(client.ack(&token).await.unwrap_err().code(), Some(Code::LeaseLost));
}

#[tokio::test]
async fn a_change_keeps_clears_and_sets() {
    let server = Server::start();
    let client = client(&server);
    let put = PutJob { priority: Some(7), ttr: Some(Duration(5_000)), ..PutJob::default() };
    let version = client.put("t", "a", &put, Guard::default()).await.unwrap().version;
    let change = ChangeJob { priority: Edit::Clear, ttl: Edit::Set(Duration(60_000)), ..ChangeJob::default() };
    let guard = Guard { if_match: Some(version), force: false };
    let changed = client.change("t", "a", &change, guard).await.unwrap();
    assert_eq!((changed.priority, changed.ttr_ms), (Some(1024), Some(5_000)));
    assert!(changed.expires_at.is_some());
    let again = client.change("t", "a", &change, guard).await.unwrap_err();
    assert_eq!(again.code(), Some(Code::VersionMismatch));
}

#[tokio::test]
async fn many_jobs_are_judged_one_by_one() {
    let server = Server::start();
    let client = client(&server);
    let named = |id: &'static str| PutJob { id: Some(id.into()), ..job("t") };
    let put = client.put_many(&PutJobs { jobs: vec![named("a"), named("a"), job("-")] }).await.unwrap();
    assert_eq!(put.iter().map(|result| result.status).collect::<Vec<_>>(), [201, 409, 400]);
    let name = |id: &'static str| JobName { topic: "t".into(), id: id.into() };
    let cancelled = client.cancel_many(&CancelJobs { jobs: vec![name("a"), name("b")] }).await.unwrap();
    assert_eq!(cancelled.iter().map(|result| result.status).collect::<Vec<_>>(), [204, 404]);
    assert_eq!(client.topic("t").await.unwrap().totals.cancelled, 1);
    client.delete_topic("t").await.unwrap();
    assert_eq!(client.topic("t").await.unwrap_err().code(), Some(Code::NotFound));
}

#[tokio::test]
async fn lists_of_more_than_a_page_are_whole() {
    let server = Server::start();
    let client = client(&server);
    let topics: Vec<_> = (0..1_001).map(|number| format!("topic-{number:04}")).collect();
    let mut jobs: Vec<_> = topics.iter().map(|topic| job(topic)).collect();
    jobs.extend((0..1_001).map(|_| job("many")));
    client.put_many(&PutJobs { jobs }).await.unwrap();

    let page = client.topics(TopicsQuery { prefix: Some("topic-"), limit: Some(2), cursor: None }).await.unwrap();
    assert_eq!((page.topics.len(), page.next_cursor.as_deref()), (2, Some("topic-0001")));
    let first = client.jobs("many", JobsQuery { limit: Some(2), ..JobsQuery::default() }).await.unwrap();
    let query = JobsQuery { state: Some(State::Ready), limit: Some(1), cursor: first.next_cursor.as_deref() };
    assert_eq!(client.jobs("many", query).await.unwrap().jobs.len(), 1);

    let listed = server.json(&["topics", "--prefix", "topic-"]).objects();
    assert!(listed.iter().map(|topic| &topic["name"]).eq(&topics));
    assert_eq!(server.dwell(&["topics", "--prefix", "topic-"]).good().lines().count(), 1 + topics.len());
    assert_eq!(server.json(&["jobs", "many", "--limit", "5000"]).objects().len(), 1_001);
    assert_eq!(server.dwell(&["jobs", "many", "--limit", "5000"]).good().lines().count(), 1 + 1_001);
}
