//! `monitor --operate`: its start, its token, and orders of programs.

use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};

use serde_json::{Value, json};

use crate::crossing::place_of;
use crate::monitor::{Answer, Monitor, ask_at};
use crate::page_operate::{TOKEN, operated, token_file};
use crate::server::Server;
use crate::support::{Place, Running, finish, skip};

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

/// Gives each order on a service, and looks at what has become of the holders.
fn every_order_is_carried_out(place: &Place) {
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

    for (body, status) in [
        (json!({"order": "freeze"}), 400),
        (json!({"order": "stop"}), 400),
        (json!({"order": "break", "contender": "x"}), 400),
        (json!([]), 400),
    ] {
        assert_eq!(give("x", body.clone()).0, status, "{body}");
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

/// Ends a monitor while a freeze waits behind a holder: it leaves the queue, and freezes nothing after the holder.
fn a_freeze_that_waits_ends_with_its_monitor(place: &Place) {
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
fn a_freeze_that_waits_on_files_ends_with_its_monitor() {
    a_freeze_that_waits_ends_with_its_monitor(&Place::new());
}

#[test]
fn a_freeze_that_waits_on_a_server_ends_with_its_monitor() {
    let server = Server::start(&Place::new(), &[]);
    a_freeze_that_waits_ends_with_its_monitor(&place_of(server.url()));
}

#[test]
fn every_order_of_a_program_is_carried_out_on_files() {
    let place = Place::new();
    every_order_is_carried_out(&place);
}

#[test]
fn every_order_of_a_program_is_carried_out_on_a_server() {
    let server = Server::start(&Place::new(), &[]);
    every_order_is_carried_out(&place_of(server.url()));
}

#[test]
fn five_wrong_tokens_a_minute_are_answered_and_then_all_wait_but_who_is_logged_in() {
    let place = Place::new();
    let monitor = operated(&place, "127.0.0.1:0", &[]);
    let address = monitor.address();
    let origin = [format!("Host: {address}"), format!("Origin: http://{address}")];
    let form = "Content-Type: application/x-www-form-urlencoded".to_owned();
    let log_in = |token: &str| {
        let lines = [&origin[..], std::slice::from_ref(&form)].concat();
        ask_at(address, "POST /login", &lines, &format!("token={token}"))
    };
    let session = log_in(TOKEN);
    let cookie = session.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let freeze = json!({"order": "freeze", "reason": "x"});
    for wrong in 0..5 {
        let wrong = format!("{wrong}{}", &TOKEN[1..]).replace(TOKEN, "x");
        // Both doors count together.
        let answer = order(address, address, &wrong, "door", &freeze);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{answer:?}");
    }
    for token in ["wrong", TOKEN] {
        let answers = [log_in(token), order(address, address, token, "door", &freeze)];
        for answer in answers {
            let after: u64 = answer.header("retry-after").unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap();
            assert!(answer.status == 429 && (1..=61).contains(&after), "{answer:?}");
            assert!(answer.header("set-cookie").is_none(), "{answer:?}");
        }
    }
    let lines = [origin[0].clone(), format!("Cookie: {cookie}")];
    assert_eq!(ask_at(address, "GET /order?name=door&order=freeze", &lines, "").status, 200);
    let (_, said) = monitor.stop();
    assert_eq!(said.matches("refused: This is not the token.").count(), 5, "{said}");
}

#[test]
fn what_would_let_others_operate_is_refused_at_the_start_in_one_line() {
    let place = Place::new();
    let (good, short) = (token_file(&place, TOKEN), place.file("short", "0123456789abcdef"));
    std::fs::set_permissions(&short, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let public = place.file("public", TOKEN);
    std::fs::set_permissions(&public, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let (short, public) = (short.to_str().unwrap(), public.to_str().unwrap());
    let operate = ["--operate", "--operate-token-file"];
    for (options, variable, words) in [
        (&["--operate"][..], None, "there is no token"),
        (&["--operate"], Some("0123456789abcdef"), "LOCKKEEPER_OPERATE_TOKEN: the token has 64 bits at most"),
        (&["--operate"], Some(""), "the token is empty"),
        (&[operate[0], operate[1], short], Some(TOKEN), "the token has 64 bits at most"),
        (&[operate[0], operate[1], public], None, "other users can read or change it (mode 644)"),
        (&[operate[0], operate[1], "/nowhere/token"], None, "/nowhere/token: cannot be read"),
        (&[operate[1], &good], None, "--operate"),
        (&["--operate", "--listen", "0.0.0.0:0"], Some(TOKEN), "can be reached from other machines"),
        (&["--operate", "--public-url", "http://locks.example.org"], Some(TOKEN), "is no https: URL"),
        (&["--public-url", "locks.example.org"], None, "is no URL of HTTP"),
    ] {
        let listen = if options.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let mut command = place.command(&[&["monitor"], listen, options].concat());
        if let Some(token) = variable {
            command.env("LOCKKEEPER_OPERATE_TOKEN", token);
        }
        let ended = finish(&mut command);
        assert!(!ended.assert_refused(125, &[words]).contains(TOKEN), "{options:?}: {ended:?}");
    }
}

#[test]
fn beyond_loopback_orders_come_to_the_public_host_and_its_session_is_for_tls_alone() {
    let place = Place::new();
    let public = "https://locks.example.org/ops";
    let monitor = operated(&place, "0.0.0.0:0", &["--public-url", public]);
    let port = monitor.address().rsplit(':').next().unwrap().to_owned();
    let near = format!("127.0.0.1:{port}");
    let freeze = json!({"order": "freeze", "reason": "x"});
    // Read over plain HTTP, by any address of this machine and by the name of the proxy.
    for host in ["192.0.2.7", "locks.example.org"] {
        assert_eq!(ask_at(&near, "GET /api/locks", &[format!("Host: {host}")], "").status, 200, "{host}");
    }
    assert_eq!(ask_at(&near, "GET /api/locks", &["Host: evil.example".to_owned()], "").status, 421);
    let refused = order(&near, "192.0.2.7", TOKEN, "door", &freeze);
    assert!(refused.status == 403 && refused.body.contains("https://locks.example.org/ops/"), "{refused:?}");
    let login = ask_at(&near, "GET /login", &[format!("Host: 192.0.2.7:{port}")], "");
    assert!(login.status == 403 && !login.body.contains("id=\"token\""), "{login:?}");
    // As a client asks that has found the port, and as a proxy asks that was asked over plain HTTP or says nothing.
    let with_port = format!("Host: locks.example.org:{port}");
    let tls = "X-Forwarded-Proto: https".to_owned();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for lines in [
        vec![with_port.clone(), bearer.clone()],
        vec![with_port, tls.clone(), bearer.clone()],
        vec!["Host: locks.example.org".to_owned(), bearer.clone()],
        vec!["Host: locks.example.org".to_owned(), "X-Forwarded-Proto: http".to_owned(), bearer.clone()],
        vec![format!("Host: {near}"), "X-Forwarded-For: 192.0.2.7".to_owned(), bearer.clone()],
    ] {
        let login = ask_at(&near, "GET /login", &lines, "");
        assert!(login.status == 403 && !login.body.contains("id=\"token\""), "{lines:?}: {login:?}");
        let ordered = ask_at(&near, "POST /api/locks/door", &lines, &freeze.to_string());
        assert!(ordered.status == 403 && ordered.body.contains("X-Forwarded-Proto"), "{lines:?}: {ordered:?}");
    }
    let log_in = |origin: &str| {
        let lines = [
            "Host: locks.example.org".to_owned(),
            tls.clone(),
            format!("Origin: {origin}"),
            "Content-Type: application/x-www-form-urlencoded".to_owned(),
        ];
        ask_at(&near, "POST /login", &lines, &format!("token={TOKEN}"))
    };
    assert_eq!(log_in("http://locks.example.org").status, 403);
    let session = log_in("https://locks.example.org");
    let cookie = session.header("set-cookie").unwrap_or_else(|| panic!("{session:?}"));
    assert!(cookie.contains("; Secure") && cookie.contains("; Path=/ops/;"), "{cookie}");
    let lines = ["Host: locks.example.org".to_owned(), tls.clone(), bearer];
    let ordered = ask_at(&near, "POST /api/locks/door", &lines, &freeze.to_string());
    assert_eq!(ordered.status, 200, "{ordered:?}");
    // Another address of this machine is as far as another machine.
    let far = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Some(far) = far.ok().map(|far| far.ip()).filter(|far| !far.is_loopback() && !far.is_unspecified()) else {
        return skip("this machine has no address beside its loopback");
    };
    let far = format!("{far}:{port}");
    assert_eq!(ask_at(&far, "GET /api/locks", &[format!("Host: {far}")], "").status, 200);
    for host in [&*far, &near, "localhost"] {
        assert_eq!(order(&far, host, TOKEN, "door", &freeze).status, 403, "{host}");
    }
}
