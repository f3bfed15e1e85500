//! A row of the report, and when its budget is met. Pure; `rows` has the table, `record` the figures.

use std::fmt;

use clap::ValueEnum;

use crate::load::Spread;

/// What is measured together.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(crate) enum Group {
    /// The recipes alone, on the memory backend.
    Memory,
    /// Files beside the bare system calls.
    File,
    /// The command beside flock(1), as whole processes.
    Run,
    /// Locks on ZooKeeper beside a bare socket, Curator and others, on three kinds of server.
    #[value(name = "zookeeper")]
    ZooKeeper,
    /// An uncontended lock on etcd beside the calls of `clientv3/concurrency` and of `etcdctl lock`.
    Etcd,
    /// A lock on Redis beside `SET NX PX` and the crate `rslock`, alone and in a crowd.
    Redis,
    /// A lock on PostgreSQL and MariaDB beside ShedLock's statements and the databases' own locks.
    Sql,
    /// The embedded server beside Apache ZooKeeper standalone.
    Server,
    /// How soon a change of one of 10,000 locks is told, on each service.
    Following,
    /// What the command `monitor` takes beside 10,000 locks and 1,000 grants a second.
    Monitor,
}

/// In what a row's figures are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    Seconds,
    PerSecond,
    /// How many.
    Count,
    /// A part of one.
    Share,
    /// Memory, in units of 2^20 bytes.
    Mebibytes,
}

/// What a row promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Ours divided by the peer's is at most this.
    RatioAtMost(f64),
    /// Ours divided by the peer's is at least this.
    RatioAtLeast(f64),
    /// Ours is at most this, in the row's unit.
    OursAtMost(f64),
    /// Ours is at least this, in the row's unit.
    OursAtLeast(f64),
    /// Nothing: the row is there to be read.
    Informative,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) group: Group,
    /// Its name within the group and the server.
    pub(crate) id: &'static str,
    pub(crate) server: &'static str,
    pub(crate) what: &'static str,
    /// Empty for a row with a figure of ours alone.
    pub(crate) peer_name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) bound: Bound,
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Row {
    pub(crate) const fn has_peer(&self) -> bool {
        !self.peer_name.is_empty()
    }
}

impl Unit {
    /// As it is named in the report's JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::PerSecond => "1/s",
            Self::Count => "count",
            Self::Share => "share",
            Self::Mebibytes => "MiB",
        }
    }

    /// A figure with its unit, in three digits.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1e-6 => format!("{:.0} ns", value * 1e9),
            Self::Seconds if value < 1e-3 => format!("{} µs", digits(value * 1e6)),
            Self::Seconds if value < 1.0 => format!("{} ms", digits(value * 1e3)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::PerSecond => format!("{}/s", thousands(value)),
            Self::Count => digits(value),
            Self::Share => format!("{value:.2}"),
            Self::Mebibytes => format!("{} MiB", digits(value)),
        }
    }
}

impl Bound {
    /// The number of the budget, if there is one.
    pub(crate) const fn limit(self) -> Option<f64> {
        match self {
            Self::RatioAtMost(limit) | Self::RatioAtLeast(limit) => Some(limit),
            Self::OursAtMost(limit) | Self::OursAtLeast(limit) => Some(limit),
            Self::Informative => None,
        }
    }

    /// What the number bounds, as it is named in the report's JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RatioAtMost(_) => "ratio at most",
            Self::RatioAtLeast(_) => "ratio at least",
            Self::OursAtMost(_) => "ours at most",
            Self::OursAtLeast(_) => "ours at least",
            Self::Informative => "none",
        }
    }

    /// The budget in the words of the table.
    pub(crate) fn show(self, unit: Unit) -> String {
        match self {
            Self::RatioAtMost(limit) if limit < 0.1 => format!("≤ {limit:.3} ×"),
            Self::RatioAtMost(limit) => format!("≤ {limit:.2} ×"),
            Self::RatioAtLeast(limit) => format!("≥ {} ×", digits(limit)),
            Self::OursAtMost(limit) => format!("≤ {}", unit.show(limit)),
            Self::OursAtLeast(limit) => format!("≥ {}", unit.show(limit)),
            Self::Informative => "none".to_owned(),
        }
    }

    /// Whether the medians keep to it.
    pub(crate) fn is_met(self, ours: Spread, ratio: Option<Spread>) -> bool {
        let ratio = |holds: fn(f64, f64) -> bool, limit| ratio.is_some_and(|ratio| holds(ratio.median, limit));
        match self {
            Self::RatioAtMost(limit) => ratio(|ratio, limit| ratio <= limit, limit),
            Self::RatioAtLeast(limit) => ratio(|ratio, limit| ratio >= limit, limit),
            Self::OursAtMost(limit) => ours.median <= limit,
            Self::OursAtLeast(limit) => ours.median >= limit,
            Self::Informative => true,
        }
    }
}

/// A number in about three digits.
pub(crate) fn digits(value: f64) -> String {
    match value {
        value if value < 0.1 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => thousands(value),
    }
}

/// A whole number with a comma before each three digits.
pub(crate) fn thousands(value: f64) -> String {
    let text = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread { least: 0.0, median, most: 9.0 }
    }

    /// The limit belongs to the budget; a ratio without a peer is not met; an own figure needs no peer.
    #[test]
    fn the_median_decides_whether_a_budget_is_met() {
        for (bound, ours, ratio, is_met) in [
            (Bound::RatioAtMost(1.1), 5.0, Some(1.1), true),
            (Bound::RatioAtMost(1.1), 5.0, Some(1.11), false),
            (Bound::RatioAtMost(1.1), 0.1, None, false),
            (Bound::RatioAtLeast(2.0), 5.0, Some(2.0), true),
            (Bound::RatioAtLeast(2.0), 5.0, Some(1.9), false),
            (Bound::RatioAtLeast(1.1), 9.0, None, false),
            (Bound::OursAtLeast(5.0), 5.0, None, true),
            (Bound::OursAtMost(4.0), 5.0, None, false),
            (Bound::Informative, 5.0, Some(9.0), true),
        ] {
            assert_eq!(bound.is_met(spread(ours), ratio.map(spread)), is_met, "{bound:?}: {ours}, {ratio:?}");
        }
    }

    #[test]
    fn figures_are_written_with_their_unit() {
        let seconds = [(0.000_000_25, "250 ns"), (0.000_012_3, "12.3 µs"), (0.001_5, "1.50 ms"), (3.3, "3.30 s")];
        seconds.into_iter().for_each(|(value, shown)| assert_eq!(Unit::Seconds.show(value), shown));
        assert_eq!(Bound::RatioAtMost(0.05).show(Unit::Mebibytes), "≤ 0.050 ×");
        assert_eq!(Unit::PerSecond.show(1_234_567.0), "1,234,567/s");
        assert_eq!(Bound::OursAtLeast(800_000.0).show(Unit::PerSecond), "≥ 800,000/s");
        assert_eq!(Bound::RatioAtLeast(300.0).show(Unit::PerSecond), "≥ 300 ×");
    }
}
