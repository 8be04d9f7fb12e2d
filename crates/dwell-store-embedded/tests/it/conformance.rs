//! Everything a store must do.

use dwell_store_testkit::property::property;
use dwell_store_testkit::{exercise, make_store};

use crate::subject::{in_directory, in_memory, with_a_tiny_cold_tier, with_tiny_segments};

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_it_passes_the_suite() {
    exercise(|setup| async move { in_memory(&setup) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_real_files_it_passes_the_suite() {
    exercise(|setup| async move { in_directory(&setup) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tiny_segments_it_passes_the_suite() {
    exercise(|setup| async move { with_tiny_segments(&setup) }).await;
}

#[test]
fn in_memory_it_agrees_with_the_model() {
    property(&make_store(|setup| async move { in_memory(&setup) }), 300, 40);
}

#[test]
fn with_tiny_segments_it_agrees_with_the_model() {
    property(&make_store(|setup| async move { with_tiny_segments(&setup) }), 150, 60);
}

#[test]
fn on_real_files_it_agrees_with_the_model() {
    property(&make_store(|setup| async move { in_directory(&setup) }), 60, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_tiny_cold_tier_it_passes_the_suite() {
    exercise(|setup| async move { with_a_tiny_cold_tier(&setup) }).await;
}

#[test]
fn with_a_tiny_cold_tier_it_agrees_with_the_model() {
    property(&make_store(|setup| async move { with_a_tiny_cold_tier(&setup) }), 150, 60);
}
