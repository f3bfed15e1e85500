//! `capabilities`: what the service in use promises, and all services side by side.

use std::process::Command;

use serde_json::json;

use crate::support::{Place, finish};

#[test]
fn capabilities_says_what_the_service_promises() {
    let place = Place::new();
    let of_service = ["capabilities", "--json", "--connect", &place.service()];
    let mut promises = place.json(&of_service);
    let conditions = promises.as_object_mut().unwrap().remove("conditions").unwrap();
    assert!(!conditions.as_array().unwrap().is_empty(), "{conditions}");
    let expected = json!({"service": place.service(), "backend": "file", "exclusion": "machine", "fencing": "clock",
                          "stopped_holder": "keeps", "removal": "noticed",
                          "kinds": ["mutex", "rwlock", "semaphore", "election", "barrier"], "findings": []});
    assert_eq!(promises, expected);
    let text = place.run(&["capabilities", "--connect", &place.service()]).stdout;
    assert!(text.contains("on one machine"), "{text}");
}

#[test]
fn capabilities_of_no_service_compares_all_and_needs_none() {
    let place = Place::new();
    let ended = finish(place.command(&["capabilities", "--json"]).env("LOCKKEEPER_DIR", "/nowhere/at/all"));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let matrix = ended.json();
    let rows = matrix.as_array().unwrap();
    let services: Vec<_> = rows.iter().map(|row| row["service"].as_str().unwrap()).collect();
    assert_eq!(services, ["memory", "files", "zookeeper", "lockkeeper server", "etcd", "postgres", "mysql", "redis"]);
    let compiled_in: Vec<_> = rows[4..].iter().map(|row| row["is_compiled_in"].as_bool().unwrap()).collect();
    let features =
        [cfg!(feature = "etcd"), cfg!(feature = "postgres"), cfg!(feature = "mysql"), cfg!(feature = "redis")];
    assert_eq!(compiled_in, features);
    let text = place.run(&["capabilities"]).stdout;
    assert!(text.contains("exclusion       process  machine  timed"), "{text}");
}

#[test]
fn capabilities_are_those_of_the_service_that_the_environment_or_a_config_file_names() {
    let place = Place::new();
    let service = |command: &mut Command| {
        finish(command.args(["capabilities", "--json"])).json()["service"].as_str().map(str::to_owned)
    };
    place.configure("[server]\ntick = '1s'");
    let none: [&str; 0] = [];
    assert_eq!(service(&mut place.command(&none)), None, "all services are compared");
    place.configure(&format!("url = '{}'", place.service()));
    assert_eq!(service(&mut place.command(&none)), Some(place.service()));
    assert_eq!(service(place.command(&none).env("LOCKKEEPER_URL", "memory:")).as_deref(), Some("memory:"));
}
