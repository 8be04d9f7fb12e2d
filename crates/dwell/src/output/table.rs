//! Tables without lines, easy to read and to cut.

use comfy_table::{CellAlignment, presets};

use super::line;
use crate::exit::Exit;

/// On which side the cells of a column begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under a heading.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// A table of these columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(columns.iter().map(|(name, _)| *name));
        for (column, (_, align)) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Self(table)
    }

    /// Pairs of a name and a value, without a heading.
    pub(crate) fn pairs(pairs: &[(&str, String)]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.add_rows(pairs.iter().map(|(name, value)| [*name, value.as_str()]));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(table)
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells.into_iter().collect::<Vec<_>>());
    }

    pub(crate) fn print(&self) -> Result<(), Exit> {
        line(&self.0.trim_fmt())
    }
}
