//! Receivers of a monitor's alerts: a webhook that is down for a while, Alertmanager, a command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::monitor::Monitor;
use crate::support::{Holder, PATIENCE, Place, Running, eventually, finish};

/// A request as a webhook gets it.
struct Posted {
    head: String,
    body: Value,
}

/// A webhook that answers with these statuses, one after the other, and the last one from then on.
struct Webhook {
    url: String,
    posted: mpsc::Receiver<Posted>,
}

impl Webhook {
    fn start(statuses: &'static [u16]) -> Self {
        Self::over("http://127.0.0.1", statuses, |stream| stream)
    }

    /// Starts one whose connections become others first.
    fn over<Stream: Read + Write>(
        host: &str,
        statuses: &'static [u16],
        wrap: impl Fn(TcpStream) -> Stream + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{host}:{}/hook?team=locks", listener.local_addr().unwrap().port());
        let (sender, posted) = mpsc::channel();
        std::thread::spawn(move || {
            let mut statuses = statuses.iter();
            let mut status = 200;
            for stream in listener.incoming().map_while(Result::ok) {
                status = statuses.next().copied().unwrap_or(status);
                // Who hangs up has asked nothing.
                let Some(posted) = answer(wrap(stream), status) else { continue };
                if sender.send(posted).is_err() {
                    return;
                }
            }
        });
        Self { url, posted }
    }

    fn next(&self) -> Posted {
        self.posted.recv_timeout(PATIENCE).expect("the webhook is told")
    }
}

fn answer(stream: impl Read + Write, status: u16) -> Option<Posted> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|&read| read > 0)?;
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("it has a length")];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n");
    reader.into_inner().write_all(answer.as_bytes()).unwrap();
    Some(Posted { head, body: serde_json::from_slice(&body).unwrap() })
}

/// A machine whose monitor takes a hold for long after a moment.
fn place(settings: &str) -> Place {
    let place = Place::new();
    place.configure(&format!("[monitor]\nlong_hold_threshold = '200ms'\n{settings}"));
    place
}

/// Has a lock held while another one waits for it.
fn contend(place: &Place, lock: &str) -> (Holder, Running) {
    (place.hold(lock), place.queue(&[], lock))
}

#[test]
fn a_webhook_that_is_down_is_told_each_alert_once_it_is_up_and_in_order() {
    let webhook = Webhook::start(&[503, 429, 200]);
    let place = place(&format!("webhook = '{}'\nwebhook_format = 'plain'", webhook.url));
    let monitor = Monitor::start(&place, &[]);
    let (holder, waiting) = contend(&place, "nightly \u{202e}");
    let [first, second, third] = [(); 3].map(|()| webhook.next());
    drop(holder);
    let last = webhook.next();
    drop(waiting);
    for posted in [&first, &second, &third] {
        assert!(posted.head.starts_with("POST /hook?team=locks HTTP/1.1\r\n"), "{}", posted.head);
        let told = (&posted.body["status"], &posted.body["rule"], &posted.body["lock"]);
        assert_eq!(told, (&json!("firing"), &json!("held"), &json!("nightly \u{202e}")));
        assert!(posted.body["holder"]["owner"]["pid"].is_u64() && posted.body["ended"].is_null(), "{}", posted.body);
    }
    assert!(key(&first) == key(&third) && key(&first) != key(&last), "{} {}", key(&first), key(&last));
    assert_eq!((&last.body["status"], &last.body["began"]), (&json!("resolved"), &first.body["began"]));
    let (code, said) = monitor.stop();
    assert_eq!(code, Some(0));
    for words in ["alerts are not taken by http://127.0.0.1:", "it answers 503", "alerts are taken again by "] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
}

#[test]
fn alertmanager_is_told_in_its_shape() {
    let webhook = Webhook::start(&[200]);
    let place = place(&format!("webhook = '{}'", webhook.url));
    let _monitor = Monitor::start(&place, &[]);
    let (holder, _waiting) = contend(&place, "nightly");
    let raised = webhook.next().body;
    drop(holder);
    let over = webhook.next().body;
    let labels = &raised[0]["labels"];
    assert_eq!((&labels["alertname"], &labels["rule"]), (&json!("LockkeeperHeld"), &json!("held")), "{raised}");
    assert_eq!((&labels["lock"], &labels["service"]), (&json!("nightly"), &json!(place.service())), "{raised}");
    assert!(raised[0]["startsAt"].is_string() && raised[0].get("endsAt").is_none(), "{raised}");
    assert!(raised[0]["annotations"]["summary"].as_str().unwrap().starts_with("nightly: "), "{raised}");
    // The end is the end of the same alert.
    assert_eq!((&over[0]["labels"], &over[0]["startsAt"]), (labels, &raised[0]["startsAt"]));
    assert!(over[0]["endsAt"].is_string(), "{over}");
}

#[test]
fn a_webhook_that_refuses_an_alert_is_not_asked_again_for_it() {
    let webhook = Webhook::start(&[400, 200]);
    let place = place(&format!("webhook = '{}'\nwebhook_format = 'plain'", webhook.url));
    let monitor = Monitor::start(&place, &[]);
    let (holder, _waiting) = contend(&place, "nightly");
    assert_eq!(webhook.next().body["status"], "firing");
    drop(holder);
    assert_eq!(webhook.next().body["status"], "resolved");
    assert!(monitor.stop().1.contains("refuses an alert: it answers 400"));
}

#[test]
fn a_command_reads_each_alert_from_its_stdin() {
    let place = place(r#"command = ['sh', '-c', 'cat >> "$HOME/told"; echo $1 >> "$HOME/told"', 'sh', 'a  b']"#);
    let told = place.file("told", "");
    let _monitor = Monitor::start(&place, &[]);
    let (holder, _waiting) = contend(&place, "nightly");
    let lines = |count: usize| {
        eventually("the command is run", || {
            let text = std::fs::read_to_string(&told).unwrap();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            (lines.len() >= count).then_some(lines)
        })
    };
    let first: Value = serde_json::from_str(&lines(2)[0]).unwrap();
    assert_eq!((&first["status"], &first["lock"]), (&json!("firing"), &json!("nightly")));
    assert_eq!(lines(2)[1], "a b", "the shell of this command splits it, and no other");
    drop(holder);
    let second: Value = serde_json::from_str(&lines(4)[2]).unwrap();
    assert_eq!(second["status"], "resolved");
}

/// The line that tells receivers which alert it is.
fn key(posted: &Posted) -> String {
    let line = posted.head.lines().find(|line| line.to_lowercase().starts_with("idempotency-key: "));
    line.expect("it has a key").to_owned()
}

#[test]
fn of_two_monitors_one_sends_and_the_other_goes_on_in_its_place_and_none_shows_their_election() {
    let webhook = Webhook::start(&[200]);
    let place = place(&format!("webhook = '{}'\nwebhook_format = 'plain'", webhook.url));
    let first = Monitor::start(&place, &[]);
    let election = || finish(place.command(&["show", "lockkeeper-monitor/alerts", "--json"]).env("LC_ALL", "C")).stdout;
    let candidates = |count: usize| {
        eventually("they stand for election", || (election().matches("\"candidate\"").count() == count).then_some(()));
    };
    candidates(1);
    let second = Monitor::start(&place, &[]);
    candidates(2);
    let (holder, _waiting) = contend(&place, "nightly");
    let raised = webhook.next();
    assert_eq!(raised.body["status"], "firing");
    // The other one has seen the same, and does not tell it, neither now nor when it is its turn.
    second.until("the alert", "/api/alerts", |alerts| alerts["alerts"][0]["rule"] == "held");
    let (_, said) = first.stop();
    assert!(!said.contains("warning"), "{said}");
    candidates(1);
    for path in ["/api/locks", "/api/events"] {
        assert!(!second.json(path).to_string().contains("lockkeeper-monitor"), "{path}");
    }
    assert!(second.get("/metrics").1.contains("lockkeeper_queues 1\n"));
    drop(holder);
    let mut over = webhook.next();
    if over.body["status"] == "firing" {
        // The first was stopped before it had noted that this was taken.
        assert_eq!(key(&over), key(&raised));
        over = webhook.next();
    }
    assert_eq!((&over.body["status"], &over.body["began"]), (&json!("resolved"), &raised.body["began"]));
    let of = |posted: &Posted| key(posted).split_once('-').unwrap().1.split_once('-').unwrap().1.to_owned();
    assert_eq!(of(&raised), of(&over), "it is the end of the same alert");
}

#[test]
fn after_a_restart_what_goes_on_is_not_told_again_and_what_ended_meanwhile_is_ended() {
    let place = place("");
    let state = place.file("state", "");
    std::fs::remove_file(&state).unwrap();
    let option = format!("--state={}", state.display());
    let monitor = Monitor::start(&place, &[&option]);
    let (stays, _waits) = contend(&place, "stays");
    let (goes, _too) = contend(&place, "goes");
    let lines = [monitor.line(), monitor.line()];
    assert!(lines.iter().all(|line| line.starts_with("lockkeeper: alert: ")), "{lines:?}");
    assert_eq!(monitor.stop().0, Some(0));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&state).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    drop(goes);
    let monitor = Monitor::start(&place, &[&option]);
    let line = monitor.line();
    assert!(line.starts_with("lockkeeper: alert over after ") && line.contains(": goes: "), "{line}");
    let alerts = monitor.json("/api/alerts");
    assert_eq!((alerts["alerts"].as_array().unwrap().len(), &alerts["alerts"][0]["lock"]), (1, &json!("stays")));
    drop(stays);
    let line = monitor.line();
    assert!(line.contains("alert over after ") && line.contains(": stays: "), "{line}");
    assert_eq!(monitor.stop(), (Some(0), "lockkeeper: stopping, by SIGTERM\n".to_owned()));
}

#[test]
fn a_state_that_cannot_be_used_is_refused_and_left_as_it_is_and_one_that_cannot_be_written_is_said_once() {
    let place = place("");
    let refused = |option: &str, words: &str| {
        place.run(&["monitor", "--listen", "127.0.0.1:0", option]).assert_refused(125, &["--state: ", words]);
    };
    for (text, words) in [
        ("{\"version\":1,", "is damaged"),
        (
            "{\"version\":1,\"service\":\"zk://h\",\"note\":0,\"outages\":0,\"firing\":[],\"untold\":{}}",
            "is of another service, zk://h",
        ),
    ] {
        let state = place.file("state", text);
        refused(&format!("--state={}", state.display()), words);
        assert_eq!(std::fs::read_to_string(&state).unwrap(), text);
    }
    refused("--state=/nowhere/state", "cannot write /nowhere/state");
    refused("--state=/", "names no file");
    refused("--state=/dev/null", "no regular file");
    let directory = place.file("states/x", "").parent().unwrap().to_owned();
    let monitor = Monitor::start(&place, &[&format!("--state={}", directory.join("state").display())]);
    std::fs::remove_dir_all(&directory).unwrap();
    let (holder, _waiting) = contend(&place, "nightly");
    let lines = [monitor.line(), monitor.line()];
    assert!(lines[0].starts_with("lockkeeper: alert: nightly: "), "{lines:?}");
    assert!(lines[1].starts_with("lockkeeper: warning: cannot write "), "{lines:?}");
    drop(holder);
    let line = monitor.line();
    assert!(line.starts_with("lockkeeper: alert over after "), "{line}");
    assert_eq!(monitor.stop(), (Some(0), "lockkeeper: stopping, by SIGTERM\n".to_owned()));
}

#[cfg(feature = "tls")]
#[test]
fn a_webhook_over_tls_is_told_where_its_authority_is_trusted_and_nowhere_else() {
    use std::sync::Arc;

    use lockkeeper_faults::authority::Authority;
    use lockkeeper_tls::rustls::crypto::ring;
    use lockkeeper_tls::rustls::pki_types::pem::PemObject as _;
    use lockkeeper_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use lockkeeper_tls::rustls::{ServerConfig, ServerConnection, StreamOwned};

    let [authority, other] = [(); 2].map(|()| Authority::new("localhost").unwrap());
    let certificates = authority.server_certificate_files();
    let chain = CertificateDer::pem_file_iter(&certificates.cert).unwrap().map(Result::unwrap).collect();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(&certificates.key).unwrap()).unwrap();
    let config = Arc::new(config);
    let webhook = Webhook::over("https://localhost", &[200], move |stream| {
        StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream)
    });
    let settings = |ca: &std::path::Path| format!("webhook = '{}'\nwebhook_ca = '{}'", webhook.url, ca.display());
    let place_of = |authority: &Authority| place(&settings(&authority.server_certificate_files().ca));
    let stranger = place_of(&other);
    let monitor = Monitor::start(&stranger, &[]);
    let _contending = contend(&stranger, "nightly");
    let lines = [monitor.line(), monitor.line()];
    assert!(lines[1].contains("alerts are not taken by https://localhost:"), "{lines:?}");
    assert!(lines[1].contains("its certificate is not by an authority that is trusted here"), "{lines:?}");
    let place = place_of(&authority);
    let _monitor = Monitor::start(&place, &[]);
    let _contending = contend(&place, "daily");
    assert_eq!(webhook.next().body[0]["labels"]["lock"], "daily");
}
