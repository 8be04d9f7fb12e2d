//! The results, for people and for programs.

use std::fmt::Write as _;

use crate::measure::{Figures, Spread};
use crate::subjects::Subject;

/// What was found about one structure.
pub(crate) struct Row {
    pub(crate) subject: Subject,
    pub(crate) figures: Figures,
}

impl Row {
    pub(crate) fn new(subject: Subject) -> Self {
        Self { subject, figures: Figures::default() }
    }
}

pub(crate) fn table(rows: &[Row], spread: Spread, entries: usize, budget: usize) -> String {
    let million = entries / 1_000_000;
    let count = if million == 0 { entries.to_string() } else { format!("{million} M") };
    let over = match spread {
        Spread::Uniform => "uniform over 24 h",
        Spread::LogUniform => "log-uniform from 1 ms to 25 days",
    };
    let mut text = format!("{count} entries, deadlines {over}, budget {budget}:\n\n");
    text += "| | insert ns | cancel ns | expire ns | worst insert µs | worst step µs | bytes |\n";
    text += "|---|--:|--:|--:|--:|--:|--:|\n";
    for Row { subject, figures } in rows {
        let micros = |nanos: Option<f64>| cell(nanos.map(|nanos| nanos / 1_000.0));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            subject.title(),
            cell(figures.insert),
            cell(figures.cancel),
            cell(figures.expire),
            micros(figures.worst_insert),
            micros(figures.worst_step),
            cell(figures.bytes),
        );
    }
    text
}

pub(crate) fn json(row: &Row, spread: Spread, entries: usize, budget: usize) -> String {
    let Row { subject, figures } = row;
    let number = |figure: Option<f64>| figure.map_or("null".to_owned(), |it| format!("{it:.1}"));
    format!(
        "{{\"structure\":\"{subject}\",\"spread\":\"{spread}\",\"entries\":{entries},\
         \"budget\":{budget},\"insert_ns\":{},\"cancel_ns\":{},\"expire_ns\":{},\
         \"worst_insert_ns\":{},\"worst_step_ns\":{},\"bytes\":{}}}",
        number(figures.insert),
        number(figures.cancel),
        number(figures.expire),
        number(figures.worst_insert),
        number(figures.worst_step),
        number(figures.bytes),
    )
}

fn cell(figure: Option<f64>) -> String {
    match figure {
        None => "–".to_owned(),
        Some(figure) if figure < 10.0 => format!("{figure:.1}"),
        Some(figure) => format!("{figure:.0}"),
    }
}
