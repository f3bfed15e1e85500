//! Names of services in the URLs of other clients, where they mean the same.

/// Another client's name of a service, and ours.
const SAME: [(&str, &str); 5] = [
    ("postgresql", "postgres"),
    ("rediss", "redis+tls"),
    ("valkey", "redis"),
    ("valkeys", "redis+tls"),
    ("zookeeper", "zk"),
];

/// Returns what a scheme is called here.
pub(super) fn ours(scheme: &str) -> String {
    let (service, way) = scheme.split_at(scheme.find('+').unwrap_or(scheme.len()));
    let service = SAME.iter().find(|(other, _)| *other == service).map_or(service, |(_, ours)| ours);
    format!("{service}{way}")
}
