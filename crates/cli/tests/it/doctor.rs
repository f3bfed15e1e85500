//! `doctor`: what it finds of a service, and how it ends.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::services::{Server, Service, on_each};
use crate::support::Place;
use crate::unreachable::refusing;

#[test]
fn a_directory_in_order_has_nothing_but_notes() {
    let place = Place::new();
    let ended = place.run(&["doctor", "--json"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let diagnosis = ended.json();
    assert_eq!(diagnosis["service"], json!(place.service()));
    assert!(diagnosis["findings"].as_array().unwrap().iter().all(|finding| finding["severity"] == "note"), "{ended:?}");
    let text = place.run(&["doctor"]);
    assert!(text.stdout.starts_with(&place.service()), "{text:?}");
}

#[test]
fn a_service_that_cannot_be_used_is_an_error_with_its_cure() {
    let place = Place::new();
    fs::write(place.locks().join("queues"), "").unwrap();
    let address = refusing().replace("zk://", "");
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
        let diagnosis = ended.json();
        let timeout = &diagnosis["settings"]["session_timeout"];
        assert!(*timeout == "20s" || url.starts_with("file:") && timeout.is_null(), "{ended:?}");
        let findings = &diagnosis["findings"];
        assert_eq!((findings.as_array().unwrap().len(), &findings[0]["severity"]), (1, &json!("error")), "{ended:?}");
        assert!(findings[0]["what"].as_str().unwrap().contains(what), "{ended:?}");
        assert!(!findings[0]["cure"].as_str().unwrap().is_empty(), "{ended:?}");
    }
}

on_each! { a_slow_way_is_found:
    ZooKeeper "monitor" a_timeout_that_few_round_trips_fit_into_is_found_on_zookeeper;
    Etcd "etcd" a_timeout_that_few_round_trips_fit_into_is_found_on_etcd;
    Redis "redis" a_timeout_that_few_round_trips_fit_into_is_found_on_redis;
    PostgreSql "postgres" a_timeout_that_few_round_trips_fit_into_is_found_on_postgresql;
    MariaDb "mysql" a_timeout_that_few_round_trips_fit_into_is_found_on_mariadb;
}

/// A session timeout of a few seconds is too short where a round trip takes a good part of one.
async fn a_slow_way_is_found(service: Service, server: Server) {
    // Tables are made while the way is short.
    assert_eq!(Place::new().run(&["setup", "--connect", &server.url()]).code, Some(0));
    let (proxy, url) = server.proxied().await;
    let (one_way_ms, timeout, words) = match service {
        Service::ZooKeeper => (800, "session_timeout=6s", "and the session timeout is 6s"),
        _ => (90, "session_timeout=2s&operation_timeout=60s", "half of the requests take longer than "),
    };
    proxy.set_delay(Duration::from_millis(one_way_ms));
    let url = format!("{url}?{timeout}&connect_timeout=60s");
    let diagnosis = Place::new().run(&["doctor", "--json", "--connect", &url]).json();
    let findings = diagnosis["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"].as_str().is_some_and(|what| what.contains(words)));
    assert_eq!(found.unwrap_or_else(|| panic!("{diagnosis}"))["severity"], "warning");
}

#[cfg(not(feature = "etcd"))]
#[test]
fn a_service_that_is_not_compiled_in_names_its_feature() {
    let place = Place::new();
    for arguments in [&["doctor", "--connect", "etcd://h1"][..], &["ls", "--connect", "etcd://h1"]] {
        place.run(arguments).assert_refused(125, &["feature `etcd`"]);
    }
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_etcd_is_found_told_by_a_run_and_takes_from_the_grade() {
    use lockkeeper_faults::etcd;
    use rustix::process::Signal;

    use crate::support::Running;

    let Some(server) = Service::Etcd.start().await else { return };
    let alarm = async |action: &str| {
        let request = format!(r#"{{"action":"{action}","alarm":"NOSPACE"}}"#);
        etcd::Server::ask(server.address(), "/v3/maintenance/alarm", &request).await.unwrap()
    };
    let (place, url) = (Place::new(), server.url());
    alarm("ACTIVATE").await;
    let ended = place.run(&["doctor", "--json", "--connect", &url]);
    assert_eq!((ended.code, &*ended.stderr), (Some(2), ""), "{ended:?}");
    let findings = ended.json()["findings"].clone();
    assert!(findings[0]["what"].as_str().unwrap().contains("the database is full"), "{findings}");

    alarm("DEACTIVATE").await;
    // Whether the server at hand has the lease fault, `doctor` says.
    let ended = place.run(&["doctor", "--after-restore", "--json", "--connect", &url]);
    let findings = ended.json()["findings"].clone();
    let is_faulty = findings[0]["severity"] == "warning";
    assert_eq!(ended.code, Some(i32::from(is_faulty)), "{ended:?}");
    let of_word =
        |word: &str| findings.as_array().unwrap().iter().any(|it| it["what"].as_str().unwrap().contains(word));
    assert!(of_word("counted anew") && of_word("runs etcd 3."), "{findings}");
    if is_faulty {
        // The command ends when the line has come.
        let told = Running::start(&mut place.command(&["run", "--connect", &url, "job", "--", "sleep", "600"]));
        let line = told.said();
        assert!(line.starts_with(&format!("lockkeeper: {url}: warning: etcd 3.")), "{line}");
        told.send(Signal::TERM);
        assert_eq!(told.end().code, Some(143));
    }
    place.printed(&["run", "-q", "--connect", &url, "job", "--", "sleep", "0.3"]);
    let promised = place.run(&["capabilities", "--json", "--connect", &url]);
    let left = if is_faulty { "best-effort" } else { "timed" };
    assert_eq!(promised.json()["exclusion"], left, "{promised:?}");
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
