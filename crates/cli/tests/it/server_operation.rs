//! What an operator of `server` is told, and how it is watched.

use crate::server::Server;
use crate::support::Place;

#[test]
fn an_address_that_other_machines_may_reach_is_warned_of_in_one_line() {
    let place = Place::new();
    let server = Server::start_as_told(&place, &["--listen", "127.0.0.1:0", "--listen", "0.0.0.0:0"]);
    let exposed = server.url().rsplit("zk://").next().unwrap().to_owned();
    let warning = server.line("lockkeeper: warning: ");
    assert!(warning.contains(&format!("may reach {exposed},")) && warning.contains("open access lists"), "{warning}");
    let (code, lines) = server.stop_and_listen();
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");

    let server = Server::start_as_told(&place, &["--listen", "127.0.0.1:0", "--listen", "localhost:0"]);
    let (code, lines) = server.stop_and_listen();
    assert_eq!((code, lines), (Some(0), vec!["lockkeeper: stopping, by SIGTERM".to_owned()]));
}
