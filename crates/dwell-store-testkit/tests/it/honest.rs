//! The model store keeps every promise, whether its clock stands or runs.

use dwell_store_testkit::{FakeClock, ModelStore, exercise};

#[tokio::test]
async fn the_model_store_passes_the_suite() {
    exercise(|setup| async move { ModelStore::subject(&setup, FakeClock::frozen()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_it_does_on_a_running_clock_and_several_threads() {
    exercise(|setup| async move { ModelStore::subject(&setup, FakeClock::running()) }).await;
}
