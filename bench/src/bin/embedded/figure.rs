//! One number of a report, with its name and what is asked of it.

/// One number.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    asked: Option<Asked>,
}

/// What is asked of a number.
#[derive(Clone, Copy)]
enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, asked: None }
    }

    pub(crate) fn at_least(self, bound: f64) -> Self {
        Self { asked: Some(Asked::AtLeast(bound)), ..self }
    }

    pub(crate) fn at_most(self, bound: f64) -> Self {
        Self { asked: Some(Asked::AtMost(bound)), ..self }
    }

    /// Whether it is what is asked, if anything is. What is no number is not.
    pub(crate) fn is_met(&self) -> Option<bool> {
        Some(match self.asked? {
            Asked::AtLeast(bound) => self.value >= bound,
            Asked::AtMost(bound) => self.value <= bound,
        })
    }

    /// A row of a table.
    pub(crate) fn row(&self) -> String {
        let asked = match self.asked {
            None => String::new(),
            Some(Asked::AtLeast(bound)) => format!("at least {}", self.human(bound)),
            Some(Asked::AtMost(bound)) => format!("at most {}", self.human(bound)),
        };
        let met = match self.is_met() {
            None => "",
            Some(true) => ": met",
            Some(false) => ": **not met**",
        };
        format!("| {} | {} | {asked}{met} |", self.name, self.human(self.value))
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        // JSON has no word for what is no number.
        let value = if self.value.is_finite() { self.value.to_string() } else { "null".to_owned() };
        let asked = match self.asked {
            None => String::new(),
            Some(Asked::AtLeast(bound)) => format!(", \"at_least\": {bound}"),
            Some(Asked::AtMost(bound)) => format!(", \"at_most\": {bound}"),
        };
        let met = self.is_met().map(|met| format!(", \"met\": {met}")).unwrap_or_default();
        format!("{{\"name\": {:?}, \"value\": {value}, \"unit\": {:?}{asked}{met}}}", self.name, self.unit)
    }

    /// As people read it.
    fn human(&self, value: f64) -> String {
        let digits = if value >= 100.0 { 0 } else { 2 };
        format!("{value:.digits$} {}", self.unit).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_said_with_whether_it_is_met() {
        let ratio = |value| Figure::new("ratio", value, "%").at_least(15.0);
        assert_eq!(ratio(27.914).row(), "| ratio | 27.91 % | at least 15.00 %: met |");
        assert_eq!(ratio(14.9).row(), "| ratio | 14.90 % | at least 15.00 %: **not met** |");
        let late = |value| Figure::new("p99", value, "ms").at_most(2.0);
        assert_eq!(
            [1.9, 2.0, 2.1, f64::NAN].map(|p99| late(p99).is_met()),
            [Some(true), Some(true), Some(false), Some(false)]
        );
        assert_eq!(Figure::new("jobs", 1_000.4, "jobs").row(), "| jobs | 1000 jobs |  |");
    }

    #[test]
    fn json_is_json_for_every_number() {
        assert_eq!(Figure::new("a", 1.5, "ms").json(), r#"{"name": "a", "value": 1.5, "unit": "ms"}"#);
        let asked = Figure::new("a", f64::NAN, "ms").at_most(2.0);
        assert_eq!(asked.json(), r#"{"name": "a", "value": null, "unit": "ms", "at_most": 2, "met": false}"#);
    }
}
