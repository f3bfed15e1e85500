//! Circles of keys: in a table alone, and through keepers; both beside a plain simulation.

mod calls;
mod keepers;
mod plain;
mod schedules;
mod tables;
