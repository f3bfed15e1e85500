//! The metrics of a server, as Prometheus reads them.

use crate::support::Place;

#[cfg(feature = "metrics")]
mod served {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    use lockkeeper_zk_proto::message::{Acl, Permissions};
    use lockkeeper_zookeeper::NewNode;

    use super::Place;
    use crate::server::Server;
    use crate::server_operation::check_by_prometheus;
    use crate::support::{PATIENCE, eventually};

    /// A server with metrics, and the address of those.
    fn start(place: &Place, options: &[&str]) -> (Server, String) {
        let server = Server::start(place, &[&["--metrics", "0"], options].concat());
        let line = server.line("lockkeeper: metrics at http://");
        let address = line["lockkeeper: metrics at http://".len()..].strip_suffix("/metrics").unwrap().to_owned();
        (server, address)
    }

    fn connect(address: &str) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a head and returns the whole answer; empty if there is none.
    fn ask(address: &str, head: &str) -> String {
        let (mut stream, mut answer) = (connect(address), Vec::new());
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn page(address: &str) -> String {
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
        body.to_owned()
    }

    /// Each row with its value; asserts that each is of a family with a help and a type.
    fn rows(page: &str) -> BTreeMap<&str, f64> {
        let (mut rows, mut helped, mut family) = (BTreeMap::new(), "", ("", ""));
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                helped = help.split_once(' ').unwrap().0;
            } else if let Some(told) = line.strip_prefix("# TYPE ") {
                family = told.split_once(' ').unwrap();
                assert_eq!(family.0, helped, "{line}");
            } else {
                let (row, value) = line.rsplit_once(' ').unwrap();
                let name = row.split('{').next().unwrap();
                let suffix = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line} after {family:?}"));
                let suffixes: &[&str] = if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(suffixes.contains(&suffix), "{line} in {family:?}");
                assert!(rows.insert(row, value.parse().unwrap()).is_none(), "{line} twice");
            }
        }
        rows
    }

    /// Asserts that the buckets of each histogram grow up to its count.
    fn assert_cumulative(page: &str) {
        let (mut last, mut histograms) = (0.0, 0);
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (row, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            match row.split('{').next().unwrap() {
                name if name.ends_with("_bucket") => {
                    assert!(value >= last, "{line} after {last}");
                    last = value;
                }
                name if name.ends_with("_count") => {
                    assert!(value == last, "{line}, but its last bucket has {last}");
                    (last, histograms) = (0.0, histograms + 1);
                }
                _ => (),
            }
        }
        assert!(histograms > 3, "{page}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn counts_move_with_requests_and_histograms_are_whole() {
        let place = Place::new();
        let data = place.file("data/x", "").with_file_name("store");
        let (server, address) = start(&place, &["--data-dir", data.to_str().unwrap()]);
        let client = server.client("").await;
        let before = page(&address);
        for number in 0..20 {
            client.create(NewNode::persistent(format!("/{number}"))).await.unwrap();
        }
        let closed = vec![Acl::new(Permissions::ALL, "digest", "ann:x")];
        client.create(NewNode::persistent("/closed").with_acl(closed)).await.unwrap();
        client.get_data("/closed").await.unwrap_err();
        let after = page(&address);
        assert_cumulative(&after);
        let (before, after) = (rows(&before), rows(&after));
        let grew = |row: &str| {
            let value = |rows: &BTreeMap<&str, f64>| rows.get(row).copied();
            value(&after).unwrap_or_else(|| panic!("{row}: {after:?}")) - value(&before).unwrap_or_default()
        };
        let created = after.keys().find(|row| row.starts_with("lockkeeper_server_request_seconds_count{kind=\"create"));
        assert_eq!(grew(created.unwrap()), 21.0);
        assert_eq!(grew("lockkeeper_server_nodes"), 21.0);
        assert_eq!(grew("lockkeeper_server_refused_total{reason=\"no_right\"}"), 1.0);
        let flushes = grew("lockkeeper_server_fsync_seconds_count");
        assert!(flushes > 0.0 && flushes <= 21.0, "{flushes}");
        assert!(grew("lockkeeper_server_fsync_seconds_sum") > 0.0);
        assert_eq!((grew("lockkeeper_server_sessions"), after["lockkeeper_server_connections"]), (0.0, 1.0));
        assert!(after["process_open_fds"] > 3.0 && after["process_max_fds"] >= after["process_open_fds"]);
        client.close().await.unwrap();
        assert_eq!(server.stop(), Some(0));
    }

    #[test]
    fn prometheus_itself_has_nothing_to_say_against_the_page() {
        let place = Place::new();
        let (server, address) = start(&place, &[]);
        assert_eq!(place.run(&["run", "--connect", server.url(), "job", "--", "true"]).code, Some(0));
        check_by_prometheus(&place, &page(&address));
        assert_eq!(server.stop(), Some(0));
    }

    #[test]
    fn the_page_is_for_a_few_short_questions_at_a_time() {
        let place = Place::new();
        let told = "[server]\nlisten = '127.0.0.1:0'\nmetrics = '127.0.0.1:0'";
        let file = place.file("server.toml", told);
        let server = Server::start_as_told(&place, &["--config", file.to_str().unwrap()]);
        let line = server.line("lockkeeper: metrics at ");
        let address = line.split('/').nth(2).unwrap();
        assert!(ask(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405 "));
        let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(10_000));
        assert!(!ask(address, &long).contains("200 OK"), "a head of 10 kB is refused");

        // Eight are served at a time, however slowly they ask; the next one is closed.
        let slow: Vec<TcpStream> = eventually("eight stand", || {
            let all: Vec<TcpStream> = (0..8).map(|_| connect(address)).collect();
            let mut next = connect(address);
            let is_closed = matches!(next.read(&mut [0]), Ok(0) | Err(_));
            is_closed.then_some(all)
        });
        slow.iter().for_each(|stream| stream.shutdown(Shutdown::Both).unwrap());
        drop(slow);
        eventually("it answers again", || {
            ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").contains("200 OK").then_some(())
        });
        assert_eq!(server.stop(), Some(0));
    }

    #[test]
    fn an_address_that_cannot_be_had_is_refused_in_one_line() {
        let place = Place::new();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let ended = place.run(&["server", "--listen", "0", "--metrics", &address]);
        ended.assert_refused(125, &[&format!("--metrics: cannot listen on {address}")]);
        let file = place.file("bad.toml", "[server]\nmetrics = ['1', '2']");
        place.run(&["server", "--config", file.to_str().unwrap()]).assert_refused(125, &["one address"]);
    }
}

#[cfg(not(feature = "metrics"))]
#[test]
fn a_build_without_metrics_says_so() {
    let ended = Place::new().run(&["server", "--listen", "127.0.0.1:0", "--metrics", "0"]);
    ended.assert_refused(125, &["built without the feature `metrics`"]);
}
