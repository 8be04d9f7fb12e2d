//! The property test agrees with an honest store and finds what is wrong with a broken one.

use dwell_store_testkit::broken::{BrokenStore, Flaw};
use dwell_store_testkit::property::{property, search};
use dwell_store_testkit::{FakeClock, ModelStore, make_store};

#[test]
fn the_model_store_agrees_with_the_model() {
    let make = make_store(|setup| async move { ModelStore::subject(&setup, FakeClock::frozen()) });
    property(&make, 400, 40);
}

#[test]
fn so_it_does_on_a_running_clock() {
    let make = make_store(|setup| async move { ModelStore::subject(&setup, FakeClock::running()) });
    property(&make, 200, 40);
}

#[test]
fn random_steps_find_broken_stores_and_shrink_them() {
    let visible = [
        Flaw::Early,
        Flaw::Lost,
        Flaw::DoubleLease,
        Flaw::StaleAckAccepted,
        Flaw::LyingCancel,
        Flaw::WrongOrder,
        Flaw::ForgottenAttempt,
        Flaw::LeakyPause,
        Flaw::IgnoredVersion,
        Flaw::ShortPage,
        Flaw::UnboundedFlight,
    ];
    for flaw in visible {
        let make = make_store(move |setup| async move {
            BrokenStore::subject(flaw, ModelStore::subject(&setup, FakeClock::frozen()))
        });
        let failure = search(&make, 400, 40).unwrap_or_else(|| panic!("{flaw:?} was not found"));
        assert!(failure.steps.len() <= 12, "{flaw:?} shrinks to something readable, not to\n{failure}");
    }
}
