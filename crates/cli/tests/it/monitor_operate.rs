//! `monitor --operate`: its start, its token, and orders of programs.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::monitor::{Answer, Monitor, ask_at};
use crate::page_operate::{Session, TOKEN, log_in, operated, token_file};
use crate::support::{Place, Running, finish};

/// Gives an order as a program does.
fn order(address: &str, host: &str, token: &str, lock: &str, body: &Value) -> Answer {
    let lines = [format!("Host: {host}"), format!("Authorization: Bearer {token}")];
    ask_at(address, &format!("POST /api/locks/{lock}"), &lines, &body.to_string())
}

/// The contender that holds a lock, as a monitor shows it.
fn holder(monitor: &Monitor, lock: &str) -> Value {
    let path = format!("/api/locks/{lock}");
    let is_held = |queue: &Value| queue["contenders"][0]["state"] == "holder";
    monitor.until("the holder", &path, is_held)["contenders"][0].clone()
}

#[test]
fn every_order_of_a_program_is_carried_out() {
    let place = &Place::new();
    let monitor = operated(place, "127.0.0.1:0", &[]);
    let hold = |lock: &str| {
        let holder = Running::start(&mut place.command(&["run", lock, "--", "sh", "-c", "echo held; exec sleep 600"]));
        assert_eq!(holder.line(), "held\n");
        holder
    };
    let give = |lock: &str, body: Value| {
        let answer = order(monitor.address(), monitor.address(), TOKEN, lock, &body);
        let said = serde_json::from_str(&answer.body).unwrap_or_else(|_| json!(answer.body));
        (answer.status, said)
    };
    let first = hold("revoked");
    let seen = holder(&monitor, "revoked");
    let revoke = json!({"order": "revoke", "contender": seen["id"], "token": seen["token"], "reason": "deploying"});
    let (status, said) = give("revoked", revoke.clone());
    assert_eq!((status, &said["asked"][0]["id"], &said["name"]), (200, &seen["id"], &json!("revoked")), "{said}");
    assert_eq!(first.end().code, Some(143), "its command is ended in order");
    let (status, said) = give("revoked", revoke);
    assert!(status == 409 && said.to_string().contains("nothing was changed"), "{said}");

    let second = hold("broken");
    let seen = holder(&monitor, "broken");
    let wrong = json!({"order": "break", "contender": seen["id"], "token": "7"});
    assert_eq!(give("broken", wrong).0, 409);
    let (status, said) = give("broken", json!({"order": "break", "contender": seen["id"], "token": seen["token"]}));
    assert_eq!((status, &said["broken"]["id"]), (200, &seen["id"]), "{said}");
    assert_eq!(second.end().code, Some(123));

    let freeze = json!({"order": "freeze", "reason": "moving disks", "kind": "rwlock"});
    let (status, said) = give("frozen", freeze);
    assert_eq!((status, &said["frozen"]["frozen"]), (200, &json!("moving disks")), "{said}");
    let seen = said["frozen"].clone();
    let thaw = json!({"order": "thaw", "contender": seen["id"], "token": seen["token"]});
    let (status, said) = give("frozen", thaw.clone());
    assert_eq!((status, &said["thawed"][0]["id"]), (200, &seen["id"]), "{said}");
    assert_eq!(give("frozen", thaw).0, 409);
    monitor.until("it is free", "/api/locks/frozen", |queue| queue["contenders"] == json!([]));

    for body in [json!({"order": "freeze"}), json!({"order": "stop"}), json!([])] {
        assert_eq!(give("x", body.clone()).0, 400, "{body}");
    }
    let (_, said) = monitor.stop();
    for line in [
        "revoke revoked, contender ",
        "break broken, contender ",
        "freeze frozen, ordered by 127.0.0.1 with a token: ",
        "thaw frozen, contender ",
    ] {
        assert!(said.contains(&format!("lockkeeper: operating: {line}")), "{line} in {said}");
    }
    assert!(said.contains("not done: ") && !said.contains(TOKEN), "{said}");
}

/// It leaves the queue, and freezes nothing after the holder.
#[test]
fn a_freeze_that_waits_on_files_ends_with_its_monitor() {
    let place = &Place::new();
    let monitor = operated(place, "127.0.0.1:0", &[]);
    let held = place.hold("door");
    let address = monitor.address().to_owned();
    let freeze = json!({"order": "freeze", "reason": "moving", "wait_ms": 600_000});
    let lines = [format!("Host: {address}"), format!("Authorization: Bearer {TOKEN}")];
    let asked = TcpStream::connect(&address).unwrap();
    let (lines, body) = (lines.map(|line| format!("{line}\r\n")).concat(), freeze.to_string());
    let head = format!("POST /api/locks/door HTTP/1.1\r\n{lines}Content-Length: {}\r\n\r\n", body.len());
    (&asked).write_all(format!("{head}{body}").as_bytes()).unwrap();
    place.until_contenders("door", 2);
    let (code, said) = monitor.stop();
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| line.contains("freeze door, ordered by ")).collect();
    assert!(
        matches!(lines.as_slice(), [begun, ended] if begun.ends_with(": begins") && ended.contains(": given up, ")),
        "{said}"
    );
    assert_eq!(place.contenders("door"), 1, "the holder is alone");
    held.end();
    assert_eq!(place.contenders("door"), 0);
    assert_eq!(place.run(&["run", "--wait=0s", "door", "--", "true"]).code, Some(0), "it is free");
}

#[test]
fn five_wrong_tokens_a_minute_are_answered_and_then_all_wait_but_who_is_logged_in() {
    let place = Place::new();
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    let address = monitor.address();
    let session = Session::open(&monitor);
    let freeze = json!({"order": "freeze", "reason": "x"});
    for wrong in 0..5 {
        let wrong = format!("{wrong}{}", &TOKEN[1..]).replace(TOKEN, "x");
        // Both doors count together.
        let answer = order(address, address, &wrong, "door", &freeze);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{answer:?}");
    }
    for token in ["wrong", TOKEN] {
        let answers = [log_in(address, token), order(address, address, token, "door", &freeze)];
        for answer in answers {
            let after: u64 = answer.header("retry-after").unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap();
            assert!(answer.status == 429 && (1..=61).contains(&after), "{answer:?}");
            assert!(answer.header("set-cookie").is_none(), "{answer:?}");
        }
    }
    assert_eq!(session.get("/order?name=door&order=freeze").status, 200);
    let (_, said) = monitor.stop();
    assert_eq!(said.matches("refused: This is not the token.").count(), 5, "{said}");
}

#[test]
fn what_would_let_others_operate_is_refused_at_the_start_in_one_line() {
    let place = Place::new();
    let good = token_file(&place, TOKEN);
    let public = place.file("public", TOKEN);
    std::fs::set_permissions(&public, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let public = public.to_str().unwrap();
    for (options, variable, words) in [
        (&["--operate"][..], None, "there is no token"),
        (&["--operate"], Some("0123456789abcdef"), "LOCKKEEPER_OPERATE_TOKEN: the token has 64 bits at most"),
        (&["--operate", "--operate-token-file", public], None, "other users can read or change it (mode 644)"),
        (&["--operate", "--operate-token-file", "/nowhere/token"], None, "/nowhere/token: cannot be read"),
        (&["--operate-token-file", &good], None, "--operate"),
        (&["--operate", "--listen", "0.0.0.0:0"], Some(TOKEN), "can be reached from other machines"),
        (&["--operate", "--public-url", "http://locks.example.org"], Some(TOKEN), "is no https: URL"),
        (&["--public-url", "locks.example.org"], None, "is no URL of HTTP"),
    ] {
        let listen = if options.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let mut command = place.command(&[&["monitor"], listen, options].concat());
        command.envs(variable.map(|token| ("LOCKKEEPER_OPERATE_TOKEN", token)));
        let ended = finish(&mut command);
        assert!(!ended.assert_refused(125, &[words]).contains(TOKEN), "{options:?}: {ended:?}");
    }
}

#[test]
fn beyond_loopback_orders_come_to_the_public_host_and_its_session_is_for_tls_alone() {
    let place = Place::new();
    let monitor = operated(&place, "0.0.0.0:0", &["--public-url", "https://locks.example.org/ops"]);
    let near = format!("127.0.0.1:{}", monitor.address().rsplit(':').next().unwrap());
    let (public, tls) = ("Host: locks.example.org".to_owned(), "X-Forwarded-Proto: https".to_owned());
    // Read over plain HTTP, by any address of this machine and by the name of the proxy.
    for (host, status) in [("192.0.2.7", 200), ("locks.example.org", 200), ("evil.example", 421)] {
        assert_eq!(ask_at(&near, "GET /api/locks", &[format!("Host: {host}")], "").status, status, "{host}");
    }
    let freeze = json!({"order": "freeze", "reason": "x"}).to_string();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for (lines, says) in [
        (vec!["Host: 192.0.2.7".to_owned()], "https://locks.example.org/ops/"),
        (vec![public.clone()], "X-Forwarded-Proto"),
        (vec![format!("Host: {near}"), "X-Forwarded-For: 192.0.2.7".to_owned()], "X-Forwarded-Proto"),
    ] {
        let login = ask_at(&near, "GET /login", &lines, "");
        assert!(login.status == 403 && !login.body.contains("id=\"token\""), "{lines:?}: {login:?}");
        let ordered =
            ask_at(&near, "POST /api/locks/door", &[&lines[..], std::slice::from_ref(&bearer)].concat(), &freeze);
        assert!(ordered.status == 403 && ordered.body.contains(says), "{lines:?}: {ordered:?}");
    }
    let form = "Content-Type: application/x-www-form-urlencoded".to_owned();
    let log_in = |origin: &str| {
        let lines = [public.clone(), tls.clone(), format!("Origin: {origin}"), form.clone()];
        ask_at(&near, "POST /login", &lines, &format!("token={TOKEN}"))
    };
    assert_eq!(log_in("http://locks.example.org").status, 403);
    let session = log_in("https://locks.example.org");
    let cookie = session.header("set-cookie").unwrap_or_else(|| panic!("{session:?}"));
    assert!(cookie.contains("; Secure") && cookie.contains("; Path=/ops/;"), "{cookie}");
    let ordered = ask_at(&near, "POST /api/locks/door", &[public, tls, bearer], &freeze);
    assert_eq!(ordered.status, 200, "{ordered:?}");
}
