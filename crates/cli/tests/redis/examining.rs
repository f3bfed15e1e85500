//! What `doctor` and `capabilities` say of a server.

use lockkeeper_faults::redis::{Flush, Server, Setup};

use crate::machine::Site;
use crate::site::can_start;

fn site(server: &Server, user: &str) -> Site {
    Site::of(&format!("redis://{user}{}", server.address()))
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_but_notes_where_a_server_keeps_what_it_grants() {
    if !can_start("examining::doctor_finds_nothing_but_notes_where_a_server_keeps_what_it_grants") {
        return;
    }
    let server = Setup::new().append_only(Flush::Always).start().await.expect("a server");
    let site = site(&server, "");
    let ended = site.place.run(&["doctor"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.contains("has no replica"), "{ended:?}");
    let ended = site.place.run(&["capabilities"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("redis") && ended.stdout.contains("best effort"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_a_server_may_forget_and_what_it_may_not_be_asked() {
    if !can_start("examining::doctor_says_what_a_server_may_forget_and_what_it_may_not_be_asked") {
        return;
    }
    let rights = "~{lockkeeper}* resetchannels +@all -info -config";
    let server = Setup::new().memory(64 << 20, "allkeys-lru").user(&format!("ann on >s3cret {rights}"));
    let server = server.start().await.expect("a server");
    let ended = site(&server, "").place.run(&["doctor"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stdout.contains("allkeys-lru") && ended.stdout.contains("appendonly yes"), "{ended:?}");
    let ended = site(&server, "ann:s3cret@").place.run(&["doctor"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("INFO") && ended.stdout.contains("CONFIG GET"), "{ended:?}");
    // Each command says what matters most, unless it is to be quiet.
    let ended = site(&server, "").place.run(&["run", "job", "--", "true"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
