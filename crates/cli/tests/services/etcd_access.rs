//! Commands of a user with the least rights, and of users without access.

use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::figures;
use lockkeeper_faults::ports::ReservedPort;
use serde_json::Value;

use crate::machine::{COUNT, Running, Site};
use crate::site::can_start;
use crate::support::now;

/// How many commands count at once.
const COUNTING: u32 = 50;

/// Long enough for commands that are started fifty at once.
pub(crate) const SETTINGS: &str = "session_timeout=30s";

/// What makes a server know `root`, and `ann`, who may read and write the keys below `/lockkeeper/`: paths and
/// requests, whose keys are in base64.
const USERS: [(&str, &str); 8] = [
    ("role/add", r#"{"name":"locks"}"#),
    ("role/grant", r#"{"name":"locks","perm":{"permType":2,"key":"L2xvY2trZWVwZXIv","range_end":"L2xvY2trZWVwZXIw"}}"#),
    ("user/add", r#"{"name":"ann","password":"secret"}"#),
    ("user/grant", r#"{"user":"ann","role":"locks"}"#),
    ("user/add", r#"{"name":"root","password":"secret"}"#),
    ("role/add", r#"{"name":"root"}"#),
    ("user/grant", r#"{"user":"root","role":"root"}"#),
    ("enable", "{}"),
];

/// A server that knows these users.
async fn guarded() -> Server {
    let server = Server::standalone().await.expect("a server");
    for (path, request) in USERS {
        Server::ask(server.address(), &format!("/v3/auth/{path}"), request).await.expect(path);
    }
    server
}

/// Asserts that a server has no session, by the account of `root`.
async fn assert_no_session(server: &Server) {
    let login = r#"{"name":"root","password":"secret"}"#;
    let answer = Server::ask(server.address(), "/v3/auth/authenticate", login).await.expect("root");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let token = answer["token"].as_str().expect("a token");
    let leases = Server::ask_as(server.address(), token, "/v3/lease/leases", "{}").await.expect("a look");
    let leases: Value = serde_json::from_str(&leases).expect("JSON");
    assert_eq!(leases["leases"].as_array().map_or(0, Vec::len), 0, "{leases}");
}

/// Has fifty commands count at once, and asserts that none is lost and that nothing is left.
pub(crate) fn fifty_count(url: &str, who: &str) {
    let site = Site::of(url);
    site.write("counter", "0\n");
    let begun = now();
    // No command waits for a server that comes back.
    let commands: Vec<Running> =
        (0..COUNTING).map(|_| site.start(&["-q"], "count", COUNT, &["never".to_owned()])).collect();
    site.succeed(commands);
    assert_eq!(site.read("counter"), format!("{COUNTING}\n"));
    site.assert_nothing_left();
    figures::tell(&format!("etcd, {who}: {COUNTING} counted in {:.1} s, none lost", begun.elapsed().as_secs_f64()));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one() {
    if !can_start("access::fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one") {
        return;
    }
    let server = guarded().await;
    fifty_count(&format!("etcd://ann:secret@{}?{SETTINGS}", server.address()), "least rights");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_access_says_why_in_one_line_and_leaves_nothing() {
    if !can_start("access::a_command_without_access_says_why_in_one_line_and_leaves_nothing") {
        return;
    }
    let server = guarded().await;
    let address = server.address();
    let unused = ReservedPort::take().expect("a port");
    for (url, words) in [
        (format!("etcd://ann:wrong@{address}"), ["invalid user ID or password", "/lockkeeper/"]),
        (format!("etcd://ann:secret@{address}/app"), ["permission denied", "/app/"]),
        (format!("etcd://{address}"), ["user name is empty", "/lockkeeper/"]),
        (format!("etcd://{}", unused.address()), ["refused", "cannot be reached"]),
    ] {
        let ended = Site::of(&url).place.run(&["run", "-n", "count", "--", "true"]);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(125), "", 1), "{ended:?}");
        assert!(ended.stderr.starts_with("lockkeeper: count: "), "{ended:?}");
        assert!(words.iter().all(|word| ended.stderr.contains(word)), "{ended:?}");
        assert!(!ended.stderr.contains("secret"), "{ended:?}");
    }
    assert_no_session(&server).await;
}
