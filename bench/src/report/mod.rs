//! The report: the rows and their budgets as data (`rows`, `row`), the figures that were measured (`record`), and the
//! ways to show them: a table, JSON, plots. `verdict` joins rows and figures.

mod json;
mod plots;
mod progress;
mod record;
mod row;
pub(crate) mod rows;
mod table;
mod verdict;

pub(crate) use json::write as write_json;
pub(crate) use plots::{Plot, draw};
pub(crate) use record::{Record, Shelf};
pub(crate) use row::Group;
pub(crate) use table::print as print_table;
pub(crate) use verdict::{Verdict, judge};
