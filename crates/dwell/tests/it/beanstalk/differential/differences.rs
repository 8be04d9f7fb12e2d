//! Where Dwell means to differ from beanstalkd, and why.

/// One known difference.
pub(super) struct Difference {
    /// What it is, as the guide tells it.
    pub(super) what: &'static str,
    /// Commands that show it.
    pub(super) shown_by: &'static str,
}

/// All of them, as far as a reply shows them. Random sequences keep clear of them.
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "Jobs of one priority come by due time, then in the order they were put",
        // A second goes by; then the due time of the kicked one is now, and that of the other is before.
        shown_by: "A put 5 1000 60 1|a; A put 5 0 60 1|b; B watch x; B ignore default; B reserve-with-timeout 1; \
            A kick-job 1; A reserve",
    },
    Difference {
        what: "Buried jobs are kicked, and peeked at, by due time",
        shown_by: "A put 1 0 60 1|a; A put 2 0 60 1|b; A reserve; A reserve; A bury 2 0; A bury 1 0; A peek-buried",
    },
    Difference { what: "A delay of more than 3,650 days is `BAD_FORMAT`", shown_by: "A put 0 315360001 60 1|x" },
    Difference {
        what: "A time-to-run of more than a day is cut to a day",
        shown_by: "A put 0 0 90000 1|x; A stats-job 1",
    },
    Difference {
        what: "The tubes `.` and `..` and those that begin with `$` cannot be used",
        shown_by: "A use $x; A use .",
    },
    Difference { what: "`kick -1` is `BAD_FORMAT`", shown_by: "A kick -1" },
    Difference {
        what: "`delay` of `stats-job` is exact until the job is reserved or kicked",
        shown_by: "A put 0 1000 60 1|x; A kick-job 1; A stats-job 1",
    },
    Difference {
        what: "A job given back because its connection closed counts as released",
        shown_by: "A put 0 0 60 1|x; A reserve; A close; B stats-job 1",
    },
    Difference {
        what: "Totals of a tube outlive it",
        shown_by: "A use x; A put 0 0 60 1|x; A delete 1; A use default; A use x; A stats-tube x",
    },
];
