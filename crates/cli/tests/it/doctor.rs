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
    let refusing = format!("zk://{}", listener.local_addr().unwrap());
    drop(listener);
    for (arguments, what) in [
        (&["doctor", "--json"][..], place.locks().join("queues").display().to_string()),
        (&["doctor", "--json", "--connect", &refusing], "Connection refused".to_owned()),
    ] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, &*ended.stderr), (Some(2), ""), "{ended:?}");
        let findings = found(&ended)["findings"].clone();
        assert_eq!((findings.as_array().unwrap().len(), &findings[0]["severity"]), (1, &json!("error")), "{ended:?}");
        assert!(findings[0]["what"].as_str().unwrap().contains(&what), "{ended:?}");
        assert!(!findings[0]["cure"].as_str().unwrap().is_empty(), "{ended:?}");
    }
}

#[test]
fn a_bad_option_is_no_finding() {
    let place = Place::new();
    for arguments in [&["doctor", "--fast"][..], &["doctor", "--connect", "zk://"], &["doctor", "x"]] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(125), ""), "{ended:?}");
    }
}
