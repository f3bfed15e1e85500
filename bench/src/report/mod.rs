//! The report: the rows and their budgets as data (`rows`, `row`), the figures that were measured (`record`), and the
//! ways to show them: a table, JSON, plots.

mod plots;
mod record;
mod row;
pub(crate) mod rows;
mod table;

pub(crate) use plots::{Plot, draw};
pub(crate) use record::{Record, Shelf, Verdict, judge};
pub(crate) use row::Group;
pub(crate) use table::{print as print_table, write as write_json};
