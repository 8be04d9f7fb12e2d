//! The routes, the OpenAPI document that is made from them, and the page that shows it.

mod polish;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::routing::get;
use bytes::Bytes;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::{
    Shared, access, batches, clock, dead_letters, home, jobs, leases, lists, server, settle, test_delivery, timeline,
    topics,
};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Dwell", description = include_str!("docs/about.md"), license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    tags(
        (name = "jobs", description = "Putting, seeing, moving and cancelling jobs"),
        (name = "consuming", description = "Leasing due jobs and settling them"),
        (name = "topics", description = "Topics, dead letters, the future"),
        (name = "operating", description = "What the server says of itself"),
        (name = "testing", description = "Only with --dev-clock"),
    ),
    components(schemas(dwell_wire::Problem, dwell_wire::job::LiveState)),
)]
struct Base;

/// Every route, documented.
fn documented(with_clock: bool) -> OpenApiRouter<Shared> {
    let router = OpenApiRouter::with_openapi(Base::openapi())
        .routes(routes!(jobs::put_job, jobs::get_job, jobs::change_job, jobs::cancel_job))
        .routes(routes!(jobs::create_job, lists::list_jobs, dead_letters::purge_jobs))
        .routes(routes!(batches::put_jobs))
        .routes(routes!(batches::cancel_jobs))
        .routes(routes!(leases::lease))
        .routes(routes!(leases::lease_many))
        .routes(routes!(settle::settle))
        .routes(routes!(settle::settle_lease))
        .routes(routes!(topics::list_topics))
        .routes(routes!(topics::get_topic, topics::delete_topic))
        .routes(routes!(topics::set_policy))
        .routes(routes!(topics::pause_topic))
        .routes(routes!(topics::resume_topic))
        .routes(routes!(test_delivery::test_delivery))
        .routes(routes!(dead_letters::redrive))
        .routes(routes!(timeline::topic_timeline))
        .routes(routes!(timeline::all_timeline))
        .routes(routes!(server::info))
        .routes(routes!(server::health))
        .routes(routes!(server::readiness))
        .routes(routes!(server::metrics));
    if with_clock { router.routes(routes!(clock::get_clock, clock::advance_clock)) } else { router }
}

/// Every route, and the pages about them.
pub(super) fn routes(with_clock: bool) -> Router<Shared> {
    let (router, api) = documented(with_clock).split_for_parts();
    // Written once: it is large, and whoever asks gets the same bytes.
    let text = Bytes::from(polish::polish(&api).to_string());
    let tell = move || async move { ([(CONTENT_TYPE, "application/json")], text) };
    let shown = SwaggerUi::new("/docs").config(Config::from("/openapi.json").use_base_layout());
    let router = router.route_layer(from_fn(access::check)).merge(shown);
    router.route("/openapi.json", get(tell)).route("/", get(home::home))
}

/// The OpenAPI document of a server, as `/openapi.json` has it.
pub fn document(with_clock: bool) -> serde_json::Value {
    polish::polish(&documented(with_clock).split_for_parts().1)
}
