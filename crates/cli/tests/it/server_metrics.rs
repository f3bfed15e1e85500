//! The metrics of a server, as Prometheus reads them.

use crate::support::Place;

#[cfg(feature = "metrics")]
mod served {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

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

    #[test]
    fn the_page_is_as_prometheus_reads_it_and_its_counts_move_with_requests() {
        let place = Place::new();
        let data = place.file("data/x", "").with_file_name("store");
        let (server, address) = start(&place, &["--data-dir", data.to_str().unwrap()]);
        let before = page(&address);
        assert_eq!(place.run(&["run", "--connect", server.url(), "job", "--", "true"]).code, Some(0));
        let after = page(&address);
        check_by_prometheus(&place, &after);
        for row in [
            "lockkeeper_server_nodes ",
            "lockkeeper_server_fsync_seconds_count ",
            "lockkeeper_server_request_seconds_count{kind=\"create",
        ] {
            let value = |page: &str| -> f64 {
                let values =
                    page.lines().filter(|line| line.starts_with(row)).filter_map(|line| line.rsplit(' ').next());
                values.map(|value| value.parse::<f64>().unwrap()).sum()
            };
            assert!(value(&after) > value(&before), "{row}: {after}");
        }
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
