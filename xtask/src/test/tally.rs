//! Counting tests by what the test harness prints.

use std::ops::AddAssign;

use anyhow::ensure;

/// How many tests ran and how they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Names of failed tests, as the harness prints them.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Takes in one line of the output of `cargo test`.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.read_counts(counts);
        } else if let Some(name) = failed_test(line) {
            self.failures.push(name.to_owned());
        }
    }

    /// Reads `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
    fn read_counts(&mut self, counts: &str) {
        let counts = counts.split_once(". ").map_or(counts, |(_verdict, rest)| rest);
        for part in counts.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    /// A run of no test at all proves nothing, so it is an error.
    pub(crate) fn require_some(&self) -> anyhow::Result<()> {
        ensure!(self.passed + self.failed > 0, "not one test was executed");
        Ok(())
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read_line(line));
        tally
    }

    #[test]
    fn sums_every_result_line() {
        let tally = read(
            "\
running 4 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s
test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
",
        );
        assert_eq!((tally.passed, tally.failed, tally.skipped), (13, 2, 1));
    }

    #[test]
    fn remembers_the_names_of_failed_tests() {
        let tally = read(
            "\
test wheel::advances ... ok
test wheel::cancels ... FAILED
test libs/timing-wheel/src/lib.rs - Wheel (line 12) ... FAILED
",
        );
        assert_eq!(tally.failures, ["wheel::cancels", "libs/timing-wheel/src/lib.rs - Wheel (line 12)"]);
    }

    #[test]
    fn does_not_count_what_a_test_quotes() {
        let tally = read("  test result: ok. 3 passed; 0 failed; 0 ignored");
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn no_executed_test_is_an_error() {
        assert!(read("test result: ok. 0 passed; 0 failed; 5 ignored").require_some().is_err());
        assert!(read("test result: ok. 1 passed; 0 failed; 0 ignored").require_some().is_ok());
        assert!(read("test result: FAILED. 0 passed; 1 failed; 0 ignored").require_some().is_ok());
    }
}
