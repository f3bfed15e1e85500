//! The measurements as Prometheus reads them: text, by its format 0.0.4. Serving it is left to others.

use std::fmt::{self, Display, Write};

use lockkeeper_zk_proto::message::OpCode;

use crate::measures::collected::{HANDSHAKE, ServerMeasures, kind_of};
use crate::measures::histogram::{BOUNDS_NS, Histogram};

/// What all names begin with, but for those that every process has.
const PREFIX: &str = "lockkeeper_server_";

const NANOSECONDS_PER_S: f64 = 1e9;

/// What a server has at a moment, as it knows without measuring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stock {
    pub(crate) connections: usize,
    pub(crate) sessions: usize,
    pub(crate) watches: usize,
    pub(crate) nodes: usize,
    /// Of all nodes' paths and data.
    pub(crate) data_bytes: usize,
    /// The memory of nodes, as the limit of it counts.
    pub(crate) tree_bytes: usize,
    pub(crate) packets_received: u64,
    pub(crate) packets_sent: u64,
    pub(crate) refuses_writes: bool,
}

impl ServerMeasures {
    /// All metrics. Kinds of requests and reasons of refusals are there once one was seen.
    pub(crate) fn exposition(&self, stock: &Stock) -> String {
        let mut page = ExpositionText::default();
        self.write(&mut page, stock).expect("writing into a string cannot fail");
        page.text
    }

    fn write(&self, page: &mut ExpositionText, stock: &Stock) -> fmt::Result {
        page.family(
            "request_seconds",
            "histogram",
            "From the reading of a request until its answer left, when stored.",
        )?;
        for (kind, histogram) in self.seen_kinds() {
            page.histogram("request_seconds", &format!("kind=\"{kind}\""), histogram)?;
        }
        page.family("fsync_seconds", "histogram", "How long flushes of records to the disk took.")?;
        page.histogram("fsync_seconds", "", self.flushes())?;
        page.family("refused_total", "counter", "Connections and requests that were refused, by the reason.")?;
        for (reason, count) in self.refusals() {
            page.row("refused_total", &format!("reason=\"{reason}\""), count)?;
        }
        page.family("packets_total", "counter", "Requests and four-letter words received, answers and events sent.")?;
        page.row("packets_total", "direction=\"received\"", stock.packets_received)?;
        page.row("packets_total", "direction=\"sent\"", stock.packets_sent)?;
        let load = self.load();
        page.gauge("connections", "Connections of clients.", stock.connections)?;
        page.gauge("sessions", "Sessions, also those without a connection.", stock.sessions)?;
        page.gauge("watches", "Watches that are set.", stock.watches)?;
        page.gauge("nodes", "Nodes, those of the service included.", stock.nodes)?;
        page.gauge("data_bytes", "Bytes of all nodes' paths and data.", stock.data_bytes)?;
        page.gauge("tree_bytes", "Memory of all nodes, as its limit counts it.", stock.tree_bytes)?;
        page.gauge("outstanding_requests", "Requests whose answers wait for the disk.", load.outstanding)?;
        page.gauge(
            "writes_refused",
            "1 while writes are refused since they cannot be stored.",
            u8::from(stock.refuses_writes),
        )?;
        page.gauge("uptime_seconds", "Time since the start.", load.uptime_ms as f64 / 1e3)?;
        page.process("process_open_fds", "Descriptors that the process has open.", load.open_descriptors)?;
        page.process("process_max_fds", "Descriptors that the process may have open.", load.descriptors_max)
    }

    /// The kinds of requests that were answered, by the names of their operations.
    fn seen_kinds(&self) -> impl Iterator<Item = (String, &Histogram)> {
        let operations = std::iter::once(HANDSHAKE).chain(1..=107).chain([-10, -11]);
        let kinds = operations.filter_map(|operation| Some((name_of(operation)?, self.requests(kind_of(operation)?))));
        kinds.filter(|(_, histogram)| histogram.count() > 0)
    }
}

/// The name of an operation, as in `get_children2`.
fn name_of(operation: i32) -> Option<String> {
    if operation == HANDSHAKE {
        return Some("connect".to_owned());
    }
    let mut name = String::new();
    for (at, mark) in format!("{:?}", OpCode::from_code(operation)?).char_indices() {
        if at > 0 && mark.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(mark.to_ascii_lowercase());
    }
    Some(name)
}

/// The text, as it grows.
#[derive(Debug, Default)]
struct ExpositionText {
    text: String,
}

impl ExpositionText {
    fn family(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.text, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}")
    }

    fn row(&mut self, name: &str, labels: &str, value: impl Display) -> fmt::Result {
        writeln!(self.text, "{PREFIX}{name}{{{labels}}} {value}")
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) -> fmt::Result {
        self.family(name, "gauge", help)?;
        writeln!(self.text, "{PREFIX}{name} {value}")
    }

    /// A gauge that every process has, under its common name; none where the system does not tell.
    fn process(&mut self, name: &str, help: &str, value: Option<u64>) -> fmt::Result {
        match value {
            Some(value) => writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"),
            None => Ok(()),
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) -> fmt::Result {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        // Read once: so what is recorded meanwhile is in all rows or in none.
        let counts = histogram.counts();
        for (bound_ns, in_bucket) in BOUNDS_NS.iter().zip(counts) {
            count += in_bucket;
            let bound = *bound_ns as f64 / NANOSECONDS_PER_S;
            self.row(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), count)?;
        }
        count = counts.iter().sum();
        self.row(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"+Inf\""), count)?;
        let sum = histogram.sum_ns() as f64 / NANOSECONDS_PER_S;
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        writeln!(self.text, "{PREFIX}{name}_sum{labels} {sum}\n{PREFIX}{name}_count{labels} {count}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_duration_counts_in_its_bucket_and_in_all_greater_ones() {
        let flushes = Arc::new(Histogram::default());
        let measures = ServerMeasures::start(Arc::clone(&flushes));
        for micros in [10, 11, 40_000_000] {
            flushes.record(Duration::from_micros(micros));
        }
        let text = measures.exposition(&Stock::default());
        for row in [
            "_bucket{le=\"0.00001\"} 1\n",
            "_bucket{le=\"0.00003\"} 2\n",
            "_bucket{le=\"10\"} 2\n",
            "_bucket{le=\"+Inf\"} 3\n",
            "_sum 40.000021\n",
            "_count 3\n",
        ] {
            assert!(text.contains(&format!("lockkeeper_server_fsync_seconds{row}")), "{row:?}: {text}");
        }
    }

    #[test]
    fn requests_are_shown_by_the_names_of_their_operations_and_refusals_by_their_reasons() {
        let measures = ServerMeasures::start(Arc::default());
        for operation in [HANDSHAKE, 1, 12, -11, 100] {
            measures.answered(operation, 0, Duration::from_millis(1));
        }
        measures.answered(1, -102, Duration::from_millis(1));
        let text = measures.exposition(&Stock::default());
        for (kind, count) in [("connect", 1), ("create", 2), ("get_children2", 1), ("close_session", 1), ("auth", 1)] {
            let row = format!("request_seconds_count{{kind=\"{kind}\"}} {count}\n");
            assert!(text.contains(&row), "{row:?}: {text}");
        }
        assert!(text.contains("refused_total{reason=\"no_right\"} 1\n") && !text.contains("kind=\"delete\""), "{text}");
    }
}
