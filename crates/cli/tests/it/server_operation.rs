//! Messages of `server` to its operator, and how it is watched.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use crate::server::Server;
use crate::support::{PATIENCE, Place, finish, has_file};

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

#[test]
fn a_service_manager_is_told_when_the_server_is_ready_and_when_it_stops() {
    let place = Place::new();
    let socket = place.file("notify/x", "").with_file_name("socket");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut text = [0; 100];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut command = place.command(&["server", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &socket);
    let server = Server::of(command);
    assert_eq!(told(), "READY=1\n");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(told(), "STOPPING=1\n");

    drop(manager);
    fs::remove_file(&socket).unwrap();
    let mut command = place.command(&["server", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &socket);
    let server = Server::of(command);
    assert!(server.line("lockkeeper: warning: ").contains("NOTIFY_SOCKET"), "it serves all the same");
    assert_eq!(server.stop(), Some(0));
}

/// Prometheus' own tool.
pub(crate) const PROMTOOL: &str = "/usr/bin/promtool";

/// Has Prometheus' own tool read a page of metrics.
pub(crate) fn check_by_prometheus(place: &Place, page: &str) {
    if has_file(PROMTOOL, "prometheus") {
        let file = place.file("metrics", page);
        let ended = finish(Command::new("sh").args(["-c", r#""$0" check metrics < "$1""#, PROMTOOL]).arg(file));
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));
    }
}

/// How exposed systemd may find the service, in tenths; 100 is a service without any hardening.
const EXPOSURE_MAX: &str = "20";

/// Asserts that systemd takes a unit for sound and hardened, with the command as it was built; returns the command
/// line that it starts. `None` if systemd is not there.
pub(crate) fn sound_unit<'a>(place: &Place, name: &str, unit: &'a str) -> Option<&'a str> {
    let tool = "/usr/bin/systemd-analyze";
    if !has_file(tool, "systemd") {
        return None;
    }
    let installed = "ExecStart=/usr/local/bin/lockkeeper ";
    let built = format!("ExecStart={} ", env!("CARGO_BIN_EXE_lockkeeper"));
    let file = place.file(name, &unit.replace(installed, &built));
    for arguments in [&["verify", "--man=no"][..], &["security", "--offline=yes", "--threshold", EXPOSURE_MAX]] {
        let ended = finish(Command::new(tool).args(arguments).arg(&file).env("PAGER", "cat"));
        assert!(ended.code == Some(0) && ended.stderr.is_empty(), "{arguments:?}: {ended:?}");
    }
    Some(unit.lines().find_map(|line| line.strip_prefix(installed)).unwrap())
}

#[test]
fn the_unit_for_systemd_is_sound_and_hardened() {
    let place = Place::new();
    let unit = include_str!("../../../../contrib/systemd/lockkeeper-server.service");
    let Some(line) = sound_unit(&place, "lockkeeper-server.service", unit) else { return };
    // What it starts is a command line of ours, with this directory in place of the service's.
    let data = place.file("data/x", "").with_file_name("store");
    let line = line.replace("/var/lib/lockkeeper-server", data.to_str().unwrap());
    let server = Server::of(place.command(&[&line.split(' ').collect::<Vec<_>>()[..], &["--listen", "0"]].concat()));
    assert_eq!(server.stop(), Some(0));
}
