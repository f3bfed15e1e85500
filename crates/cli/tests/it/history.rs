//! `history`: what a monitor remembers, as the command asks for it, over a restart, and on the page.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use lockkeeper_faults::browser::{Browser, axe_availability};
use serde_json::{Value, json};

use crate::monitor::Monitor;
use crate::page::{COLORS, ask, browser, url};
use crate::support::{Ended, Place, can_run, eventually};

/// Holds a lock so many times, one after the other, each until the monitor has seen it.
fn hold_in_turn(place: &Place, monitor: &Monitor, name: &str, times: usize) -> Vec<String> {
    let hold = |_| {
        let holder = place.hold(name);
        let token = place.token(name);
        monitor.until("the hold", &past(name), |past| past["holds"][0]["token"] == json!(token));
        drop(holder);
        monitor.until("its end", &past(name), |past| past["holds"][0]["until"].is_string());
        token
    };
    (0..times).map(hold).collect()
}

fn past(name: &str) -> String {
    let written = |byte: u8| match byte {
        b'a'..=b'z' | b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("/api/locks/{}/history", name.bytes().map(written).collect::<String>())
}

fn history(place: &Place, monitor: &Monitor, arguments: &[&str]) -> Ended {
    let address = format!("http://{}", monitor.address());
    place.run(&[&["history", "--monitor", &address], arguments].concat())
}

#[test]
fn the_command_tells_who_held_what_and_the_checker_reads_it() {
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    monitor.until_seen();
    let tokens = hold_in_turn(&place, &monitor, "reports/nightly", 3);
    let _holder = place.hold("other");
    monitor.until("the other", &past("other"), |past| past["holds"][0]["ended"] == "holds");
    let text = history(&place, &monitor, &["reports/nightly", "--since", "2h"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    for token in &tokens {
        let line = text.stdout.lines().find(|line| line.split("  ").any(|cell| cell.trim() == token));
        assert!(line.is_some_and(|line| line.ends_with("  left")), "{token}: {}", text.stdout);
    }
    assert!(text.stdout.contains("known since"), "{}", text.stdout);
    let lines = history(&place, &monitor, &["reports/nightly", "--json"]);
    let file = place.file("h.jsonl", &lines.stdout);
    let judged = place.json(&["verify", file.to_str().unwrap(), "--json"]);
    assert_eq!((&judged["grants"], &judged["unended"], &judged["broken"]), (&json!(3), &json!(0), &json!([])));
    for (arguments, expected) in [(&["--longest", "9"][..], 4), (&[], 4), (&["--at", "2020-01-01T00:00:00Z"], 0)] {
        let found = history(&place, &monitor, arguments);
        let rows =
            found.stdout.lines().filter(|line| line.starts_with("reports/nightly ") || line.starts_with("other "));
        assert_eq!(rows.count(), expected, "{arguments:?}: {}", found.stdout);
    }
    let host = monitor.json(&past("other"))["holds"][0]["host"].as_str().unwrap().to_owned();
    assert!(history(&place, &monitor, &["--holder", &host]).stdout.contains("other"));
    assert!(history(&place, &monitor, &["--holder", "nobody"]).stdout.starts_with("nothing was held\n"));
    history(&place, &monitor, &["--at", "noon"]).assert_refused(125, &["noon", "no moment"]);
    // A lock whose own name ends so.
    let _odd = place.hold("reports/history");
    let path = "/api/locks/reports%2Fhistory";
    monitor.until("itself", path, |lock| lock["contenders"].as_array().is_some_and(|all| all.len() == 1));
    monitor.stop();
    place
        .run(&["history", "x", "--monitor", "http://127.0.0.1:1"])
        .assert_refused(125, &["127.0.0.1:1", "does not answer"]);
}

/// The tokens of a lock's past, the newest first, each with how it ended.
fn ends(past: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    past["holds"].as_array().unwrap().iter().map(|hold| (text(&hold["token"]), text(&hold["ended"]))).collect()
}

#[test]
fn a_monitor_that_was_killed_knows_what_it_has_kept_also_behind_a_torn_line_and_shows_the_gap() {
    let place = Place::new();
    let directory = place.notes().join("history");
    let options = ["--history", directory.to_str().unwrap()];
    let mut monitor = Monitor::start(&place, &options);
    monitor.until_seen();
    let tokens = hold_in_turn(&place, &monitor, "nightly", 2);
    let stays = place.hold("stays");
    let ends_unseen = place.hold("ends-unseen");
    for name in ["ice", "thaws-unseen"] {
        assert_eq!(place.run(&["freeze", name, "--reason", "a \"move\""]).code, Some(0));
    }
    let (_asked, _waits) = (place.hold_by(&["--on-revoke", "ignore"], "asked"), place.queue(&[], "asked"));
    assert_eq!(place.run(&["revoke", "asked", "--reason", "a deploy"]).code, Some(0));
    let files = || fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
    let written = || files().map(|file| fs::read_to_string(file).unwrap()).collect::<String>();
    eventually("all is written", || {
        let text = written();
        let is_there = |what: &&str| text.contains(what);
        let lines = ["\"ends-unseen\"", "\"thaws-unseen\"", "\"ice\"", "a deploy", "\"queue\""];
        lines.iter().all(is_there).then_some(())
    });
    place
        .run(&["monitor", "--listen", "127.0.0.1:0", "--history", directory.to_str().unwrap()])
        .assert_refused(125, &["another monitor"]);
    let told = |monitor: &Monitor, name: &str| {
        let lock = monitor.json(&past(name))["lock"].take();
        (lock["marks"].clone(), lock["queue"].clone())
    };
    let before = ["asked", "ice"].map(|name| told(&monitor, name));
    monitor.kill();
    drop(ends_unseen);
    assert_eq!(place.run(&["thaw", "thaws-unseen"]).code, Some(0));
    let last = files().max().unwrap();
    OpenOptions::new()
        .append(true)
        .open(last)
        .unwrap()
        .write_all(b"{\"boot\":\"monitor on x\",\"lock\":\"night")
        .unwrap();
    let again = Monitor::start_telling(&place, &options, "1 torn line");
    again.until_seen();
    let past_of = |name: &str| again.json(&past(name));
    let expected: Vec<_> = tokens.iter().rev().map(|token| (token.clone(), "left".to_owned())).collect();
    assert_eq!(ends(&past_of("nightly")), expected);
    assert_eq!(past_of("nightly")["gaps"].as_array().map(Vec::len), Some(1), "{}", past_of("nightly"));
    assert_eq!(ends(&past_of("ends-unseen"))[0].1, "unseen");
    let kept = past_of("stays");
    assert_eq!(ends(&kept).len(), 1, "it has gone on: {kept}");
    assert!(kept["holds"][0]["from"].as_str() < kept["gaps"][0]["from"].as_str(), "{kept}");
    assert_eq!(["asked", "ice"].map(|name| told(&again, name)), before);
    let thawed = past_of("thaws-unseen");
    assert_eq!(thawed["lock"]["marks"][0]["what"], "thawed", "{thawed}");
    assert_eq!((&thawed["lock"]["marks"][1]["what"], ends(&thawed)), (&json!("frozen: a \"move\""), Vec::new()));
    let page = again.get("/lock?name=thaws-unseen&span=15m").1;
    assert!(page.contains("it was frozen."), "{page}");
    drop(stays);
    again.until("its end", &past("stays"), |past| past["holds"][0]["ended"] == "left");
    assert_eq!(again.stop().0, Some(0));
    let judged = place.json(
        &[
            &["verify", "--json"][..],
            &files()
                .map(|f| f.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        ]
        .concat(),
    );
    assert_eq!((&judged["grants"], &judged["broken"]), (&json!(5), &json!([])), "{judged}");
}

/// What is drawn of the past, and the boxes of the bars.
const DRAWN: &str = "
    const box = document.querySelector('svg.line').getBoundingClientRect();
    const bars = [...document.querySelectorAll('svg.line a')].map((bar) => [bar.getAttribute('aria-label'),
        bar.getBoundingClientRect().width >= 1, document.querySelector(bar.getAttribute('href')) !== null]);
    return [box.width > 200, bars, document.querySelectorAll('.holds tbody tr').length]";

#[test]
fn a_lock_s_page_draws_its_holders_on_any_screen_and_says_whose_a_bar_is() {
    if !can_run(axe_availability()) {
        return;
    }
    let Some(browser) = browser() else { return };
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    monitor.until_seen();
    let name = "a<b onclick='x'>\"";
    let tokens = hold_in_turn(&place, &monitor, name, 2);
    let _holder = place.hold(name);
    let _waiting = place.queue(&[], name);
    monitor.until("the queue", &past(name), |past| {
        past["lock"]["queue"].as_array().is_some_and(|queue| !queue.is_empty())
    });
    let link = "lock?name=a%3Cb%20onclick%3D%27x%27%3E%22";
    for (width, height) in [(1_280, 900), (390, 844)] {
        browser.resize(width, height).unwrap();
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).unwrap();
            for span in ["15m", "1h", "6h", "24h"] {
                browser.open(&url(&monitor, &format!("{link}&span={span}"))).unwrap();
                let drawn = ask(&browser, DRAWN);
                let bars = drawn[1].as_array().unwrap();
                assert!(drawn[0] == true && !bars.is_empty(), "{width} {span}: {drawn}");
                assert!(bars.iter().all(|bar| bar[1] == true && bar[2] == true), "{width} {span}: {drawn}");
                assert_eq!(drawn[2].as_u64(), Some(bars.len() as u64), "each bar has a row: {drawn}");
            }
            let is_wider = ask(&browser, "return document.documentElement.scrollWidth > innerWidth");
            assert_eq!(is_wider, json!(false), "{width}");
            assert_eq!(browser.obstacles().unwrap(), [], "{width} {scheme}");
            let colour = "const bar = document.querySelector('svg.line a rect');
                return contrast(color(getComputedStyle(bar).fill), ground(bar.parentElement))";
            let contrast = ask(&browser, &format!("{COLORS} {colour}"));
            assert!(contrast.as_f64() >= Some(3.0), "{width} {scheme}: {contrast}");
        }
    }
    browser.open(&url(&monitor, &format!("{link}&span=15m"))).unwrap();
    let said = "document.querySelector('svg.line a:last-of-type').focus();
        return document.getElementById('whose').textContent";
    let said = ask(&browser, said);
    assert!(said.as_str().unwrap().contains("token"), "{said}");
    let open = "const holds = document.querySelector('.holds'); holds.open = true; window.stays = true;
        return holds.textContent";
    let table = ask(&browser, open);
    // Short holds of one moment are one row.
    let is_shown = |token: &String| table.as_str().is_some_and(|table| table.contains(token));
    assert!(
        tokens.iter().all(is_shown) || table.as_str().is_some_and(|table| table.contains("2 short holds")),
        "{table}"
    );
    let _more = place.queue(&[], name);
    let is_told = "return window.stays && document.querySelector('.holds').open
        && document.querySelector('#past').textContent.includes('Waiting at most: 2')";
    eventually("the picture is drawn anew", || (ask(&browser, is_told) == json!(true)).then_some(()));
    a_freeze_is_drawn(&place, &monitor, &browser);
    browser.open(&url(&monitor, "")).unwrap();
    let line = "return document.querySelector('tbody [data-l=waiting] svg').getAttribute('aria-label')";
    assert_eq!(ask(&browser, line), json!("2 at most in the last hour"));
    assert_eq!(browser.obstacles().unwrap(), []);
}

fn a_freeze_is_drawn(place: &Place, monitor: &Monitor, browser: &Browser) {
    browser.open(&url(monitor, "lock?name=ice&span=15m")).unwrap();
    let is_drawn = "return document.querySelector('svg.line rect.ice') !== null
        && document.querySelectorAll('svg.line path.mark').length > 0
        && document.querySelector('#past').textContent.includes('Blue: it was frozen.')";
    assert_eq!(place.run(&["freeze", "ice", "--reason", "<b>a move"]).code, Some(0));
    eventually("the freeze is drawn", || (ask(browser, is_drawn) == json!(true)).then_some(()));
    assert_eq!(place.run(&["thaw", "ice"]).code, Some(0));
    monitor.until("its end", &past("ice"), |past| past["lock"]["marks"][0]["what"] == "thawed");
    eventually("it is still drawn", || (ask(browser, is_drawn) == json!(true)).then_some(()));
    assert_eq!(browser.obstacles().unwrap(), []);
}
