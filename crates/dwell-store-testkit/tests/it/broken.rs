//! Each broken store is caught by the check that is there to catch it.

use dwell_store_testkit::broken::{BrokenStore, Flaw};
use dwell_store_testkit::suite::{self, Check};
use dwell_store_testkit::{FakeClock, MakeStore, ModelStore, make_store};

fn broken(flaw: Flaw) -> MakeStore {
    make_store(move |setup| async move { BrokenStore::subject(flaw, ModelStore::subject(&setup, FakeClock::frozen())) })
}

macro_rules! caught {
    ($($name:ident: $flaw:ident;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let flaw = Flaw::$flaw;
                let catcher: Vec<Check> =
                    suite::all().iter().copied().filter(|check| check.name == flaw.caught_by()).collect();
                assert_eq!(catcher.len(), 1, "there is a check called {}", flaw.caught_by());
                let report = suite::run(&broken(flaw), &catcher).await;
                assert!(report.caught(flaw.caught_by()), "{flaw:?} went by {}", flaw.caught_by());
            }
        )*

        #[test]
        fn every_flaw_has_its_test() {
            assert_eq!(Flaw::ALL, [$(Flaw::$flaw),*]);
        }
    };
}

caught! {
    early: Early;
    lost: Lost;
    double_lease: DoubleLease;
    stale_ack_accepted: StaleAckAccepted;
    lying_cancel: LyingCancel;
    stuck_waiter: StuckWaiter;
    wrong_order: WrongOrder;
    forgotten_attempt: ForgottenAttempt;
    deaf_to_hang_up: DeafToHangUp;
    leaky_pause: LeakyPause;
    ignored_version: IgnoredVersion;
    short_page: ShortPage;
    shifted_timeline: ShiftedTimeline;
    unfair_share: UnfairShare;
    unbounded_flight: UnboundedFlight;
}
