//! What is there, shown before anything is moved.

use dwell_core::limits;
use dwell_wire::Instant;
use serde_json::{Value, json};

use super::Unit;
use super::old::{Extent, Old, Place};
use crate::exit::Exit;
use crate::output::{self, Align, Table};

/// The first instant that a score may mean if the unit is right: delay queues on Redis are younger than 2010.
const LEAST: u64 = 1_262_304_000_000;

/// What all places have.
pub(super) struct Survey {
    pub(super) places: Vec<Place>,
    extents: Vec<Extent>,
    unit: Unit,
    now: Instant,
    margin: Option<u64>,
}

/// Looks at every place. `margin`: what is due within it is left; none: nothing is.
pub(super) async fn take(old: &mut Old, unit: Unit, now: Instant, margin: Option<u64>) -> Result<Survey, Exit> {
    let places = old.places().await?;
    let least = Instant(now.0.saturating_add(margin.unwrap_or(0)));
    let mut extents = Vec::with_capacity(places.len());
    for place in &places {
        extents.push(old.extent(place, unit.score(least)).await?);
    }
    Ok(Survey { places, extents, unit, now, margin })
}

impl Survey {
    /// How many jobs are to be moved.
    pub(super) fn to_move(&self) -> u64 {
        self.extents.iter().map(|extent| extent.jobs - self.left(extent)).sum()
    }

    fn left(&self, extent: &Extent) -> u64 {
        if self.margin.is_some() { extent.before.min(extent.jobs) } else { 0 }
    }

    /// What speaks against the unit.
    pub(super) fn warning(&self) -> Option<String> {
        let (unit, other) = match self.unit {
            Unit::Seconds => ("seconds", "milliseconds"),
            Unit::Milliseconds => ("milliseconds", "seconds"),
        };
        let bad = self.places.iter().zip(&self.extents).find(|(_, extent)| self.looks_wrong(extent));
        bad.map(|(place, extent)| {
            let dates = [extent.first, extent.last].map(|score| self.date(score));
            format!(
                "{}: read as {unit}, its scores are from {} to {}; are they {other}? or write --unit {unit} only once \
                 such scores are gone",
                output::plain(&place.name()),
                dates[0],
                dates[1]
            )
        })
    }

    fn looks_wrong(&self, extent: &Extent) -> bool {
        let latest = self.now.0.saturating_add(limits::MAX_DELAY);
        [extent.first, extent.last]
            .into_iter()
            .flatten()
            .any(|score| self.unit.instant(score).is_none_or(|at| at.0 < LEAST || at.0 > latest))
    }

    fn date(&self, score: Option<f64>) -> String {
        match score {
            Some(score) => self.unit.instant(score).map_or(format!("{score}, no time"), |at| at.to_string()),
            None => "-".to_owned(),
        }
    }

    pub(super) fn print(&self) -> Result<(), Exit> {
        let columns = [
            ("key", Align::Left),
            ("topic", Align::Left),
            ("jobs", Align::Right),
            ("in the hash", Align::Right),
            ("left", Align::Right),
            ("first due", Align::Left),
            ("last due", Align::Left),
        ];
        let mut table = Table::new(&columns);
        for (place, extent) in self.places.iter().zip(&self.extents) {
            table.row([
                output::short(&place.name()),
                place.topic.as_deref().map_or("as each says".to_owned(), output::short),
                extent.jobs.to_string(),
                extent.kept.to_string(),
                self.left(extent).to_string(),
                self.date(extent.first),
                self.date(extent.last),
            ]);
        }
        if self.places.is_empty() {
            output::line("no keys of that pattern")?;
        } else {
            table.print()?;
        }
        if let Some(margin) = self.margin {
            output::line(&format!("\nleft: due within {}, for the old consumers", output::span(margin)))?;
        }
        if let Some(warning) = self.warning() {
            output::line(&format!("\nWARNING: {warning}"))?;
        }
        output::line(&format!("\nnothing was changed; --run moves {} jobs", self.to_move()))
    }

    pub(super) fn json(&self) -> Value {
        let place = |(place, extent): (&Place, &Extent)| {
            let at = |score: Option<f64>| score.and_then(|score| self.unit.instant(score)).map(|at| at.to_string());
            json!({
                "key": place.name(),
                "topic": place.topic,
                "jobs": extent.jobs,
                "in_hash": extent.kept,
                "left": self.left(extent),
                "first_due_at": at(extent.first),
                "last_due_at": at(extent.last),
            })
        };
        json!({
            "dry_run": true,
            "to_move": self.to_move(),
            "warning": self.warning(),
            "places": self.places.iter().zip(&self.extents).map(place).collect::<Vec<_>>(),
        })
    }
}
