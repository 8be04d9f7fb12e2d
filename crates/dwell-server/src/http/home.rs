//! The page at `/`: what is where.

use axum::response::Html;

/// The page.
pub(super) async fn home() -> Html<&'static str> {
    Html(include_str!("home.html"))
}
