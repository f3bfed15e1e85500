//! The monitor's page on each service, in a real browser: who holds and who waits, in order, soon after each change; a
//! deadlock soon after its second wait; and names that would run something.

use std::time::{Duration, Instant};

use lockkeeper_faults::browser::Browser;
use lockkeeper_faults::{figures, long};
use lockkeeper_zookeeper::{Client, Config, NewNode};
use rustix::process::Signal;
use serde_json::json;

use crate::crossing::{Claim, Crossing, TRIES_MAX, place_of};
use crate::monitor::Monitor;
use crate::page::{ask, browser, contend, url};
use crate::services::{self, Service, on_each};
use crate::support::{Place, Running, eventually, now};

/// How long a change may take until it is on the page, at the median; this and what follows are judged in the long run.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// How long each may take: a database is looked at twice a second at most.
const ALL_SHOWN_WITHIN: Duration = Duration::from_millis(1_500);

/// How long a deadlock may take from its second wait on.
const DEADLOCK_SHOWN_WITHIN: Duration = Duration::from_secs(3);

/// The lock that all queue for.
const LOCK: &str = "billing";

/// The states and processes of a queue as a lock's page shows them, in order.
const QUEUE: &str = "return [...document.querySelectorAll('#queue tbody tr')].map((row) =>
    [row.querySelector('.tag')?.textContent, Number(/pid (\\d+)/.exec(row.textContent)?.[1])])";

/// Waits until the page shows a queue; answers for how long it did not.
fn shown_after(browser: &Browser, queue: &[Running], since: Instant) -> Duration {
    let state = |at| if at == 0 { "holds" } else { "waits" };
    let expected: Vec<_> = queue.iter().enumerate().map(|(at, run)| json!([state(at), run.id()])).collect();
    eventually("the page shows the queue", || (ask(browser, QUEUE) == json!(expected)).then_some(()));
    now() - since
}

/// Has three join, the last one give up, and the others hold and leave. Answers how long each change took until it was
/// shown, from before it was begun.
fn queue_changes(place: &Place, browser: &Browser) -> Vec<Duration> {
    let (mut queue, mut took) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let since = now();
        queue.push(contend(place, LOCK));
        took.push(shown_after(browser, &queue, since));
    }
    let (since, last) = (now(), queue.pop());
    last.expect("three have joined").send(Signal::TERM);
    took.push(shown_after(browser, &queue, since));
    while !queue.is_empty() {
        let since = now();
        // Its command reads to the end of its input.
        let mut leaving = queue.remove(0);
        leaving.close_input();
        took.push(shown_after(browser, &queue, since));
    }
    took
}

/// Asserts that each change of a queue is shown, and in time; again, if the machine had other work to do.
fn holder_and_waiters_are_shown(place: &Place, monitor: &Monitor, browser: &Browser, who: &str) {
    browser.open(&url(monitor, &format!("lock?name={LOCK}"))).unwrap();
    for tries in 1..=TRIES_MAX {
        let mut took = queue_changes(place, browser);
        took.sort_unstable();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        figures::tell(&format!(
            "page, {who}: {} changes of a queue shown after {median:.2?} at the median, {most:.2?} at most",
            took.len()
        ));
        if !long::is_asked_for() || median <= SHOWN_WITHIN && most <= ALL_SHOWN_WITHIN {
            break;
        }
        assert!(tries < TRIES_MAX, "{who}: {took:?}");
    }
    // A page that is being loaded anew has an empty queue too.
    let granted = "return document.querySelector('#history')?.textContent.includes('granted')";
    eventually("the grants are shown", || (ask(browser, granted) == json!(true)).then_some(()));
}

/// Asserts that two commands that wait for each other are shown, and in time, with picture and chain.
fn a_deadlock_is_shown(mut place: Place, monitor: &Monitor, browser: &Browser, who: &str) {
    browser.open(&url(monitor, "")).unwrap();
    for number in 1..=TRIES_MAX {
        let (door, gate) = (format!("door-{number}"), format!("gate-{number}"));
        let (one, other): (Claim<'_>, Claim<'_>) = (&[&door], &[&gate]);
        let crossing = Crossing::new(place, [[one, other], [other, one]]);
        let card = format!(
            "return [...document.querySelectorAll('.problem:not(.mild)')].some((card) =>
                card.querySelector('svg.pic.w') && card.querySelectorAll('ol li').length === 2
                && card.querySelector('h3').textContent.includes('{door}') && card.querySelector('code'))"
        );
        eventually("the deadlock is shown", || (ask(browser, &card) == json!(true)).then_some(()));
        let took = now() - crossing.began;
        figures::tell(&format!("page, {who}: a deadlock shown {took:.2?} after its waits began"));
        if !long::is_asked_for() || took <= DEADLOCK_SHOWN_WITHIN {
            return;
        }
        assert!(number < TRIES_MAX, "{who}: {took:?}");
        place = crossing.place;
    }
}

fn changes_are_shown(place: Place, who: &str) {
    let Some(browser) = browser() else { return };
    let monitor = Monitor::start(&place, &[]);
    holder_and_waiters_are_shown(&place, &monitor, &browser, who);
    a_deadlock_is_shown(place, &monitor, &browser, who);
}

async fn on_a_service(service: Service, server: services::Server) {
    changes_are_shown(place_of(&server.url()), service.name());
}

on_each! { on_a_service:
    ZooKeeper "monitor" queues_and_deadlocks_are_shown_soon_on_zookeeper;
    Etcd "etcd" queues_and_deadlocks_are_shown_soon_on_etcd;
    Redis "redis" queues_and_deadlocks_are_shown_soon_on_redis;
    PostgreSql "postgres" queues_and_deadlocks_are_shown_soon_on_postgresql;
}

#[test]
fn queues_and_deadlocks_are_shown_soon_on_files() {
    changes_are_shown(Place::new(), "files");
}

/// Names that would run something if they were markup.
const HOSTILE: [&str; 3] =
    ["<img src=x onerror=window.ran=1>", "\"><script>window.ran=1</script>", "'-window.ran++-'\u{202e}gnp"];

/// Whether nothing has run, how many scripts and pictures the page has, whether a name is text in it, and whether
/// anything turns the reading direction.
const HARM: &str = "return [window.ran === undefined, document.scripts.length, document.images.length,
    document.body.textContent.includes('onerror=window.ran=1'), /[\\u202a-\\u202e]/.test(document.body.innerHTML)]";

/// Asserts that locks of hostile names run nothing on any page, also if they come or change while it is open.
fn hostile_names_run_nothing(place: &Place, known: usize) {
    let Some(browser) = browser() else { return };
    let harmless = json!([true, 1, 0, true, false]);
    let monitor = Monitor::start(place, &[]);
    let holders = HOSTILE.map(|name| place.hold(name));
    monitor.until("all are known", "/api/locks", |locks| locks["total"] == json!(HOSTILE.len() + known));
    browser.open(&url(&monitor, "")).unwrap();
    let _waiting = HOSTILE.map(|name| contend(place, name));
    let told = "return [...document.querySelectorAll('tbody tr')].filter((row) =>
        row.querySelector('.name').textContent.includes('window.ran')
        && row.querySelector('[data-l=waiting]').textContent === '1').length";
    eventually("the page was told of waiters", || (ask(&browser, told) == json!(HOSTILE.len())).then_some(()));
    assert_eq!(ask(&browser, HARM), harmless, "what was told");
    for page in ["", "?q=%3Cimg%20src", "lock?name=%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E"] {
        browser.open(&url(&monitor, page)).unwrap();
        assert_eq!(ask(&browser, HARM), harmless, "{page}");
    }
    ask(&browser, "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.ran=1>')");
    let inject = "const script = document.createElement('script'); script.textContent = 'window.ran = 1';
        document.body.append(script)";
    ask(&browser, inject);
    assert_eq!(ask(&browser, "return window.ran === undefined"), json!(true), "the page's rules forbid it");
    for path in ["/", "/lock?name=a", "/page.css", "/page.js"] {
        let head = monitor.ask(&format!("GET {path}"), &[format!("Host: {}", monitor.address())], "").head;
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(head.starts_with("HTTP/1.1 200") && head.contains(header), "{path}: {header} in {head}");
        }
    }
    drop(holders);
}

#[test]
fn hostile_names_run_nothing_on_files() {
    hostile_names_run_nothing(&Place::new(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_owners_and_data_run_nothing_on_zookeeper() {
    let Some(server) = Service::ZooKeeper.start().await else { return };
    let Some(browser) = browser() else { return };
    let url = server.url();
    let client = Client::connect(&Config::from_url(&url.parse().unwrap()).unwrap()).await.unwrap();
    let [image, script, _] = HOSTILE;
    let owner = json!({"host": image, "pid": 7, "command": script, "since": 0, "flow": script, "frozen": image});
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let paths = ["/lockkeeper".to_owned(), format!("/lockkeeper/{LOCK}"), "/lockkeeper/<script>ran=1<img>".to_owned()];
    for path in &paths {
        client.create(NewNode::persistent(path)).await.unwrap();
    }
    for (number, data) in [image.to_owned(), owner.to_string(), script.to_owned()].into_iter().enumerate() {
        for lock in &paths[1..] {
            let path = format!("{lock}/_c_{uuid}-lock-{number:010}");
            client.create(NewNode::persistent(&path).with_data(data.clone().into_bytes())).await.unwrap();
        }
    }
    let place = place_of(&url);
    let monitor = Monitor::start(&place, &[]);
    let total = || monitor.json("/api/locks")["total"].as_u64().unwrap();
    eventually("they are known", || monitor.get("/api/locks").1.contains(LOCK).then_some(()));
    let known = usize::try_from(total()).unwrap();
    browser.open(&crate::page::url(&monitor, &format!("lock?name={LOCK}"))).unwrap();
    assert_eq!(ask(&browser, HARM), json!([true, 1, 0, true, false]), "owners and data");
    drop((monitor, browser));
    hostile_names_run_nothing(&place, known);
}
