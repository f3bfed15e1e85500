//! The findings of a start in a data directory, for the operator.

use std::fmt;
use std::path::PathBuf;

/// Says what a start found in its data directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Recovered {
    /// The number of the last transaction that the snapshot has.
    pub snapshot_zxid: i64,
    /// How many transactions were read after it.
    pub transactions: u64,
    /// How many bytes were cut off: parts of transactions that were never acknowledged, as a crash leaves them.
    pub cut_bytes: u64,
    /// How many nodes there are now, the root among them.
    pub nodes: usize,
    /// How many sessions there are now. Each has its timeout from the start on for its client to come back.
    pub sessions: usize,
    /// The damaged log that was read as far as it could be, since its name said so.
    pub incomplete: Option<PathBuf>,
    /// Whether the log after the snapshot is missing or empty, where that is not known to be damage: a former version
    /// leaves it so when it is killed during its start.
    pub lacks_log: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { snapshot_zxid, transactions, cut_bytes, nodes, sessions, incomplete, lacks_log } = self;
        write!(
            formatter,
            "recovered nodes: {nodes}, sessions: {sessions}, by the snapshot of {snapshot_zxid:#x} and the \
             transactions after it: {transactions}"
        )?;
        if *cut_bytes > 0 {
            write!(formatter, "; {cut_bytes} bytes of transactions that were never acknowledged are cut off")?;
        }
        if let Some(path) = incomplete {
            write!(formatter, "; {} was read as far as it is whole, and what it held behind is lost", path.display())?;
        }
        if *lacks_log {
            formatter.write_str(
                "; the log after the snapshot is missing or empty, as a former version leaves it when it is killed \
                 during its start: if it was not, writes are lost, and a backup may have them",
            )?;
        }
        Ok(())
    }
}
