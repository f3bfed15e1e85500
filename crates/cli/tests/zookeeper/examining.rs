//! What is wrong with a service: by `doctor` and by `capabilities`.

use serde_json::Value;

use crate::site::{Site, can_start, server_of_twenty_ticks};
use crate::support::{Ended, finish};

fn run(site: &Site, arguments: &[&str]) -> Ended {
    finish(&mut site.place.command(arguments))
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_ends_with_what_weighs_most_and_capabilities_with_what_is_left() {
    if !can_start("examining::doctor_ends_with_what_weighs_most_and_capabilities_with_what_is_left") {
        return;
    }
    let server = server_of_twenty_ticks().await;
    for (settings, code, exclusion, word) in [
        ("?session_timeout=6s&tick=500ms", 0, "timed", "note: the service is one server"),
        ("?session_timeout=60s&tick=500ms", 1, "timed", "warning: the server grants a session timeout of 10s"),
        ("?session_timeout=6s&tick=100ms", 2, "best-effort", "error: the URL says tick=100ms"),
    ] {
        let site = Site::new(&server.address().to_string(), settings);
        let ended = run(&site, &["doctor"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(code), ""), "{settings}: {ended:?}");
        assert!(ended.stdout.lines().any(|line| line.starts_with(word)), "{settings}: {ended:?}");
        let promised = run(&site, &["capabilities", "--json"]);
        let promised: Value = serde_json::from_str(&promised.stdout).unwrap();
        assert_eq!(promised["exclusion"], exclusion, "{promised}");
        assert_eq!(promised["findings"].as_array().unwrap().is_empty(), code == 0, "{promised}");
    }
}
