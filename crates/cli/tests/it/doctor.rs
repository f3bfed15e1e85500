//! `doctor`: what it finds of a service, and how it ends.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Ended, Place};

fn found(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn a_directory_in_order_has_nothing_but_notes() {
    let place = Place::new();
    let ended = place.run(&["doctor", "--json"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let diagnosis = found(&ended);
    assert_eq!(diagnosis["service"], json!(place.service()));
    assert!(diagnosis["findings"].as_array().unwrap().iter().all(|finding| finding["severity"] == "note"), "{ended:?}");
    let text = place.run(&["doctor"]);
    assert!(text.stdout.starts_with(&place.service()), "{text:?}");
}

#[test]
fn a_service_that_cannot_be_used_is_an_error_with_its_cure() {
    let place = Place::new();
    fs::write(place.locks().join("queues"), "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let schemes = [
        ("zk", "", true),
        ("etcd", "", cfg!(feature = "etcd")),
        ("redis", "", cfg!(feature = "redis")),
        ("postgres", "/db", cfg!(feature = "postgres")),
        ("mysql", "", cfg!(feature = "mysql")),
    ];
    let here = place.service();
    let refusing = schemes.iter().filter(|&&(.., is_built_in)| is_built_in);
    let refusing = refusing.map(|(scheme, path, _)| (format!("{scheme}://{address}{path}"), "Connection refused"));
    let queues = place.locks().join("queues").display().to_string();
    for (url, what) in refusing.chain([(here, &*queues)]) {
        let ended = place.run(&["doctor", "--json", "--connect", &url]);
        assert_eq!((ended.code, &*ended.stderr), (Some(2), ""), "{ended:?}");
        let findings = found(&ended)["findings"].clone();
        assert_eq!((findings.as_array().unwrap().len(), &findings[0]["severity"]), (1, &json!("error")), "{ended:?}");
        assert!(findings[0]["what"].as_str().unwrap().contains(what), "{ended:?}");
        assert!(!findings[0]["cure"].as_str().unwrap().is_empty(), "{ended:?}");
    }
}

#[cfg(not(feature = "etcd"))]
#[test]
fn a_service_that_is_not_compiled_in_names_its_feature() {
    let place = Place::new();
    for arguments in [&["doctor", "--connect", "etcd://h1"][..], &["ls", "--connect", "etcd://h1"]] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{ended:?}");
        assert!(ended.stderr.contains("feature `etcd`"), "{ended:?}");
    }
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_etcd_is_found_told_by_a_run_and_takes_from_the_grade() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use lockkeeper_faults::etcd;
    use rustix::process::{Pid, Signal, kill_process};

    let name = "doctor::what_is_wrong_with_etcd_is_found_told_by_a_run_and_takes_from_the_grade";
    if !etcd::availability().or_skip(name) {
        return;
    }
    let server = etcd::Server::standalone().await.unwrap();
    let url = format!("etcd://{}", server.address());
    etcd::Server::ask(server.address(), "/v3/maintenance/alarm", r#"{"action":"ACTIVATE","alarm":"NOSPACE"}"#)
        .await
        .unwrap();
    let place = Place::new();
    let ended = place.run(&["doctor", "--json", "--connect", &url]);
    assert_eq!((ended.code, &*ended.stderr), (Some(2), ""), "{ended:?}");
    let findings = found(&ended)["findings"].clone();
    assert!(findings[0]["what"].as_str().unwrap().contains("the database is full"), "{findings}");

    etcd::Server::ask(server.address(), "/v3/maintenance/alarm", r#"{"action":"DEACTIVATE","alarm":"NOSPACE"}"#)
        .await
        .unwrap();
    // Whether the server at hand has the lease fault, `doctor` says.
    let ended = place.run(&["doctor", "--after-restore", "--json", "--connect", &url]);
    let findings = found(&ended)["findings"].clone();
    let is_faulty = findings[0]["severity"] == "warning";
    assert_eq!(ended.code, Some(i32::from(is_faulty)), "{ended:?}");
    let of_word =
        |word: &str| findings.as_array().unwrap().iter().any(|it| it["what"].as_str().unwrap().contains(word));
    assert!(of_word("counted anew") && of_word("runs etcd 3."), "{findings}");
    if is_faulty {
        // The command ends when the line has come.
        let mut told = place.command(&["run", "--connect", &url, "job", "--", "sleep", "600"]);
        let mut told = told.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(told.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("lockkeeper: {url}: warning: etcd 3.")), "{line}");
        kill_process(Pid::from_child(&told), Signal::TERM).unwrap();
        assert_eq!(told.wait().unwrap().code(), Some(143));
    }
    let quiet = place.run(&["run", "-q", "--connect", &url, "job", "--", "sleep", "0.3"]);
    assert_eq!((quiet.code, &*quiet.stderr), (Some(0), ""), "{quiet:?}");
    let promised = place.run(&["capabilities", "--json", "--connect", &url]);
    let left = if is_faulty { "best-effort" } else { "timed" };
    assert_eq!(found(&promised)["exclusion"], left, "{promised:?}");
}

#[test]
fn a_bad_option_is_no_finding() {
    let place = Place::new();
    let restored = ["doctor", "--after-restore"];
    for arguments in [&["doctor", "--fast"][..], &["doctor", "--connect", "zk://"], &["doctor", "x"], &restored] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{ended:?}");
    }
}
