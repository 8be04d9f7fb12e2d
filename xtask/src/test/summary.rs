//! What is printed at the end of a run: a table of steps, the failed tests, one closing line.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::tally::Tally;

/// What became of one step.
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) tally: Tally,
    /// Why the step failed.
    pub(crate) error: Option<String>,
    pub(crate) time: Duration,
}

impl Report {
    fn passed(&self) -> bool {
        self.error.is_none() && self.tally.failed == 0
    }

    /// The step's tests. A step that failed without a failed test (it did not compile, it crashed,
    /// it is not made of tests) counts as one, so that no failed run says "0 failed".
    fn counted(&self) -> Tally {
        let mut tally = self.tally.clone();
        if !self.passed() {
            tally.failed = tally.failed.max(1);
        }
        tally
    }
}

/// What became of the whole run.
pub(crate) struct Summary {
    pub(crate) reports: Vec<Report>,
}

impl Summary {
    pub(crate) fn passed(&self) -> bool {
        self.reports.iter().all(Report::passed)
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        for report in &self.reports {
            total += report.counted();
        }
        total
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12} {:<7} {:>9}", "step", "result", "time")?;
        for report in &self.reports {
            let result = if report.passed() { "ok" } else { "FAILED" };
            let seconds = report.time.as_secs_f64();
            let error = report.error.as_ref().map_or(String::new(), |error| format!("  {error}"));
            writeln!(f, "{:<12} {result:<7} {seconds:>7.1} s{error}", report.name)?;
        }
        let total = self.total();
        for name in &total.failures {
            writeln!(f, "failed: {name}")?;
        }
        let Tally { passed, failed, skipped, .. } = total;
        write!(f, "\n{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &'static str, tally: Tally, error: Option<&str>) -> Report {
        let error = error.map(str::to_owned);
        Report { name, tally, error, time: Duration::from_millis(1250) }
    }

    fn tally(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally { passed, failed, skipped, failures: Vec::new() }
    }

    #[test]
    fn shows_each_step_and_closes_with_the_total() {
        let reports = vec![report("tests", tally(40, 0, 2), None), report("simulation", tally(2, 0, 0), None)];
        let summary = Summary { reports };
        assert!(summary.passed());
        assert_eq!(
            summary.to_string(),
            "step         result       time\n\
             tests        ok          1.2 s\n\
             simulation   ok          1.2 s\n\
             \n\
             42 passed, 0 failed, 2 skipped"
        );
    }

    #[test]
    fn names_what_failed() {
        let failures = vec!["wheel::cancels".to_owned()];
        let failing = Tally { failures, ..tally(9, 1, 0) };
        let summary = Summary { reports: vec![report("tests", failing, Some("exit status: 101"))] };
        assert!(!summary.passed());
        let text = summary.to_string();
        assert!(text.contains("tests        FAILED      1.2 s  exit status: 101\n"), "{text}");
        assert!(text.contains("\nfailed: wheel::cancels\n"), "{text}");
        assert!(text.ends_with("\n9 passed, 1 failed, 0 skipped"), "{text}");
    }

    #[test]
    fn a_step_that_fails_without_a_failed_test_counts_as_one() {
        let reports =
            vec![report("tests", tally(9, 0, 0), None), report("examples", tally(0, 0, 0), Some("failed: tour"))];
        let summary = Summary { reports };
        assert!(!summary.passed());
        assert!(summary.to_string().ends_with("\n9 passed, 1 failed, 0 skipped"));
    }

    #[test]
    fn a_failed_test_fails_the_run_even_without_an_error() {
        let summary = Summary { reports: vec![report("tests", tally(9, 1, 0), None)] };
        assert!(!summary.passed());
    }
}
