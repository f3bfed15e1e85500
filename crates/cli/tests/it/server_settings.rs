//! The settings of `server`, by options and by `[server]` in a config file, as its clients meet them.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lockkeeper_zk_proto::message::{Acl, ErrorCode};
use lockkeeper_zookeeper::{ClientError, NewNode};

use crate::server::Server;
use crate::support::{Place, finish};

fn code<T>(outcome: Result<T, ClientError>) -> Option<ErrorCode> {
    outcome.err().and_then(|error| error.code())
}

/// A server with these settings: first as options, then as keys of a config file.
fn both_ways(place: &Place, settings: &[(&str, &str)]) -> [Server; 2] {
    let options: Vec<String> = settings.iter().map(|(key, value)| format!("--{key}={value}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let by_options = Server::start(place, &options);
    let quoted = |value: &str| if value.parse::<usize>().is_ok() { value.to_owned() } else { format!("'{value}'") };
    let keys = settings.iter().map(|(key, value)| format!("{} = {}\n", key.replace('-', "_"), quoted(value)));
    let file = place.file("server.toml", &format!("[server]\nlisten = '127.0.0.1:0'\n{}", keys.collect::<String>()));
    let by_file = Server::start_as_told(place, &["--config", file.to_str().unwrap()]);
    [by_options, by_file]
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_frames_and_the_memory_for_nodes_are_kept_within_what_was_set() {
    let place = Place::new();
    let timeouts = [("session-timeout-min", "7s"), ("session-timeout-max", "100s"), ("tick", "1s")];
    for server in both_ways(&place, &[&timeouts[..], &[("frame-max", "64KiB"), ("tree-max", "256KiB")]].concat()) {
        for (asked, granted) in [("5s", 7), ("90s", 90), ("200s", 100)] {
            let client = server.client(&format!("?session_timeout={asked}")).await;
            assert_eq!(client.session_timeout(), Duration::from_secs(granted), "{asked}");
            client.close().await.unwrap();
        }
        let client = server.client("").await;
        let node = |number: usize, kib: usize| NewNode::persistent(format!("/{number}")).with_data(vec![0; kib << 10]);
        let mut fits = 0;
        while client.create(node(fits, 50)).await.is_ok() {
            fits += 1;
        }
        assert!((1..=5).contains(&fits), "{fits}");
        assert_eq!(code(client.create(node(fits, 50)).await), Some(ErrorCode::QuotaExceeded));
        client.delete("/0", None).await.unwrap();
        client.create(node(fits, 50)).await.unwrap();
        let error = client.create(node(99, 70)).await.unwrap_err();
        assert_eq!(error.code(), None, "the connection is gone: {error}");
        assert_eq!(client.exists("/99").await.unwrap(), None);
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn the_words_that_are_answered_and_the_connections_of_an_address_can_be_set() {
    let place = Place::new();
    for server in both_ways(&place, &[("words", "ruok,envi"), ("max-connections-per-ip", "2"), ("memory", "64MiB")]) {
        assert_eq!(server.word("ruok"), "imok");
        assert!(server.word("envi").contains("zookeeper.version"));
        assert!(server.word("mntr").contains("not in the whitelist"));
        let _held = [TcpStream::connect(server.address()).unwrap(), TcpStream::connect(server.address()).unwrap()];
        let mut third = TcpStream::connect(server.address()).unwrap();
        assert!(!matches!(third.read(&mut [0]), Ok(1..)), "it is closed at once");
        assert_eq!(server.stop(), Some(0));
    }
    // Reports that take long or tell of paths are not given unless the operator says so.
    let server = Server::start(&place, &[]);
    for refused in ["wchp", "wchs", "dump", "cons", "envi"] {
        assert_eq!(server.word(refused), format!("{refused} is not executed because it is not in the whitelist.\n"));
    }
    for (given, part) in [("ruok", "imok"), ("mntr", "zk_watch_count\t0"), ("stat", "Clients:"), ("isro", "rw")] {
        assert!(server.word(given).contains(part), "{given}");
    }
}

/// The super user may do everything; the password comes by the environment or a file that other users cannot read.
#[tokio::test(flavor = "multi_thread")]
async fn the_super_user_has_the_password_of_the_environment_or_of_a_private_file() {
    let place = Place::new();
    let file = place.file("super", "sesame\n");
    let path = file.to_str().unwrap();
    let options = ["server", "--listen", "0", "--super-password-file", path];
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    place.run(&options).assert_refused(125, &["chmod o-rwx"]);
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let both = finish(place.command(&options).env("LOCKKEEPER_SUPER_PASSWORD", "sesame"));
    both.assert_refused(125, &["give one of them"]);

    let by_file = Server::start(&place, &["--super-password-file", path]);
    let mut command = place.command(&["server", "--listen", "127.0.0.1:0"]);
    command.env("LOCKKEEPER_SUPER_PASSWORD", "sesame");
    for server in [by_file, Server::of(command)] {
        let owner = server.client("").await;
        owner.add_auth("digest", b"ann:secret").await.unwrap();
        let node = NewNode::persistent("/private").with_acl(vec![Acl::creator()]);
        owner.create(node).await.unwrap();
        let operator = server.client("").await;
        assert_eq!(code(operator.get_data("/private").await), Some(ErrorCode::NoAuth));
        operator.add_auth("digest", b"super:sesame").await.unwrap();
        operator.get_data("/private").await.unwrap();
        assert_eq!(server.stop(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_listens_on_all_the_addresses_that_it_is_told() {
    let place = Place::new();
    let server =
        Server::start_as_told(&place, &["--listen", "0", "--listen", "127.0.0.2:0", "--listen", "localhost:0"]);
    let urls: Vec<&str> = server.url().split(" and ").collect();
    assert!(urls.len() >= 3 && urls[0].starts_with("zk://127.0.0.1:"), "{urls:?}");
    assert!(urls[1].starts_with("zk://127.0.0.2:"), "{urls:?}");
    for url in &urls {
        let ended = place.run(&["run", "--connect", url, "job", "--", "true"]);
        assert_eq!(ended.code, Some(0), "{url}: {ended:?}");
    }
    assert_eq!(server.stop(), Some(0));
    let file = place.file("several.toml", "[server]\nlisten = ['127.0.0.1:0', '127.0.0.2:0']");
    let server = Server::start_as_told(&place, &["--config", file.to_str().unwrap()]);
    assert_eq!(server.url().split(" and ").count(), 2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn settings_that_cannot_be_are_refused_in_one_line_that_names_them() {
    let place = Place::new();
    let elsewhere = place.file("locks.toml", "url = 'memory:'");
    let server = Server::start(&place, &[]);
    for (options, words) in [
        (&["--listen", server.address()][..], &["in use"][..]),
        (&["--listen", "127.0.0.1:0", "--data-dir", "/proc/no"], &["data directory"]),
        (&["--listen", "nowhere"], &["--listen", "localhost:2181"]),
        (&["--listen", "no.such.host.invalid:1"], &["no.such.host.invalid:1"]),
        (&["--frame-max", "100"], &["--frame-max", "4096"]),
        (&["--memory", "1M"], &["--memory", "64MiB"]),
        (&["--words", "ruok,conf"], &["--words", "`conf` is not one of ruok"]),
        (&["--container-check", "0"], &["--container-check", "millisecond"]),
        (&["--session-timeout-min", "9s", "--session-timeout-max", "3s"], &["--session-timeout-min", "3s"]),
        (&["--super-password-file", "/no/such"], &["super user's password", "/no/such"]),
        (&["--config", elsewhere.to_str().unwrap()], &["--config", "no [server]"]),
    ] {
        place.run(&[&["server"], options].concat()).assert_refused(125, words);
    }
    for (text, word) in [
        ("listen = 'nowhere'", "line 2: `nowhere` is no address"),
        ("frame_max = 12", "server.frame_max"),
        ("session_timeout_min = '2s'\nsession_timeout_max = '1s'", "server.session_timeout_min"),
        ("super_password_file = 'here'", "server.super_password_file"),
        ("super_password = 'sesame'", "super_password"),
    ] {
        let file = place.file("bad.toml", &format!("[server]\n{text}"));
        let ended = place.run(&["server", "--config", file.to_str().unwrap()]);
        assert!(!ended.assert_refused(125, &[word]).contains("sesame"), "{text}: {ended:?}");
    }
}
