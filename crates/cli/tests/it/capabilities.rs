//! `capabilities`: what the service in use promises, and all services side by side.

use std::process::Command;

use serde_json::json;

use crate::support::{Place, finish};

#[test]
fn capabilities_says_what_the_service_promises() {
    let place = Place::new();
    let of_service = ["capabilities", "--json", "--connect", &place.service()];
    let mut promises: serde_json::Value = serde_json::from_str(&place.run(&of_service).stdout).unwrap();
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
    let matrix: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = matrix.as_array().unwrap();
    let services: Vec<_> = rows.iter().map(|row| row["service"].as_str().unwrap()).collect();
    assert_eq!(services, ["memory", "files", "zookeeper", "lockkeeper server", "etcd", "postgres", "mysql", "redis"]);
    for row in rows {
        for property in [
            "order",
            "reentrancy",
            "shared_locks",
            "semaphore",
            "release_after_death",
            "tokens",
            "tokens_survive",
            "consistency",
            "breaks_exclusion",
            "cost",
        ] {
            assert!(row[property].as_str().is_some_and(|text| !text.is_empty()), "{property} of {row}");
        }
    }
    assert_eq!(rows[4]["is_compiled_in"], json!(cfg!(feature = "etcd")));
    assert_eq!(rows[5]["is_compiled_in"], json!(cfg!(feature = "postgres")));
    assert_eq!(rows[6]["is_compiled_in"], json!(cfg!(feature = "mysql")));
    assert_eq!(rows[7]["is_compiled_in"], json!(cfg!(feature = "redis")));
    let text = place.run(&["capabilities"]).stdout;
    assert!(text.contains("exclusion       process  machine  timed"), "{text}");
}

#[test]
fn capabilities_are_those_of_the_service_that_the_environment_or_a_config_file_names() {
    let place = Place::new();
    let service = |command: &mut Command| {
        let ended = finish(command.args(["capabilities", "--json"]));
        let said: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        said["service"].as_str().map(str::to_owned)
    };
    let config = ".config/lockkeeper/config.toml";
    place.file(config, "[server]\ntick = '1s'");
    let none: [&str; 0] = [];
    assert_eq!(service(&mut place.command(&none)), None, "all services are compared");
    place.file(config, &format!("url = '{}'", place.service()));
    assert_eq!(service(&mut place.command(&none)), Some(place.service()));
    assert_eq!(service(place.command(&none).env("LOCKKEEPER_URL", "memory:")).as_deref(), Some("memory:"));
}
