//! The monitor's page while ten thousand wait for a thousand locks, and pages are told of changes four times a second:
//! how fast it is drawn, and what it costs the monitor and the browser.
//!
//! In `cargo xtask test --long` each cost is measured ten times as long, of a build as users have it, and is judged. A
//! figure of a build without optimization is no more than an upper bound, and says so.
#![cfg(feature = "monitor")]

#[expect(dead_code, unused_imports, reason = "one test uses a part of it")]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use lockkeeper_faults::browser::{self, Browser};
use lockkeeper_faults::{figures, long, process};
use lockkeeper_zookeeper::{Client, Config, NewNode};
use serde_json::json;

use support::{Place, Running, eventually, now};

const LOCKS: usize = 1_000;

/// How many wait for each lock.
const WAITERS: usize = 10;

/// How many locks change hands between two tellings, all of them on the page.
const CHANGED: usize = 10;

/// How often changes are made; a page is told as often at most.
const UPDATE_PERIOD: Duration = Duration::from_millis(250);

/// How many rows a page has.
const ROWS: usize = 200;

/// How long each cost is measured in the long run.
const MEASURED_FOR: Duration = Duration::from_secs(40);

/// In turns of this length: what a monitor uses without a page changes by more than a page costs, within a minute.
const TURN: Duration = Duration::from_millis(2_500);

/// How long a page with all its rows may take until it is drawn.
const DRAWN_WITHIN: Duration = Duration::from_secs(1);

/// The percentage of one processor that a page may cost the monitor, and that a browser may use that shows it: all of
/// its processes together, and nothing is taken off for what it uses with an empty page.
const COST_MAX: f64 = 5.0;

/// How many pages are open at once, and how many times as much as one they may cost the monitor together.
const PAGES: usize = 100;
const PAGES_COST_MAX: f64 = 3.0;

/// How many nodes are asked for before an answer is awaited.
const AT_ONCE_MAX: usize = 500;

/// A command of ours that says where it serves on stderr.
struct Serving {
    itself: Running,
    /// What stands behind the words that announce it.
    at: String,
}

impl Serving {
    fn start(place: &Place, arguments: &[&str], announced: &str) -> Self {
        let itself = Running::start(&mut place.command(arguments));
        let line = itself.said();
        let at = line.split_once(announced).unwrap_or_else(|| panic!("{line}")).1;
        let at = at.split([',', '\n']).next().unwrap().to_owned();
        Self { itself, at }
    }

    fn id(&self) -> u32 {
        self.itself.id()
    }
}

/// Contenders of a thousand locks, as nodes of one session.
struct Fleet {
    client: Client,
}

impl Fleet {
    async fn join_all(url: &str) -> Self {
        let client = Client::connect(&Config::from_url(&url.parse().unwrap()).unwrap()).await.unwrap();
        let fleet = Self { client };
        let directories = (0..LOCKS).map(|lock| NewNode::persistent(Self::directory(lock)));
        fleet.create([NewNode::persistent("/lockkeeper")].into_iter()).await;
        fleet.create(directories).await;
        let contenders = (0..LOCKS).flat_map(|lock| (0..=WAITERS).map(move |number| Self::contender(lock, number)));
        fleet.create(contenders).await;
        fleet
    }

    fn directory(lock: usize) -> String {
        format!("/lockkeeper/job-{lock:04}")
    }

    fn path(lock: usize, number: usize) -> String {
        format!("{}/_c_{number:08x}-{lock:04x}-4000-8000-000000000000-lock-{number:010}", Self::directory(lock))
    }

    fn contender(lock: usize, number: usize) -> NewNode {
        // Each is another process, also among those that join later, as each has another ticket.
        let (host, pid) = (format!("web-{}", number % 7), 1_000 * (lock + 1) + number);
        let process = format!("{pid:016x}");
        let owner = json!({"host": host, "pid": pid, "command": "billing.sh", "since": unix_ms(), "proc": process,
            "flow": "h1"});
        NewNode::ephemeral(Self::path(lock, number)).with_data(owner.to_string().into_bytes())
    }

    async fn create(&self, nodes: impl Iterator<Item = NewNode>) {
        let mut asked = tokio::task::JoinSet::new();
        for node in nodes {
            if asked.len() == AT_ONCE_MAX {
                asked.join_next().await.unwrap().unwrap();
            }
            let client = self.client.clone();
            asked.spawn(async move { drop(client.create(node).await.unwrap()) });
        }
        while let Some(made) = asked.join_next().await {
            made.unwrap();
        }
    }

    /// Has locks change hands, some in each period, until it is told to stop: the holder leaves, another one joins.
    async fn change(self, is_over: Arc<AtomicBool>) {
        let mut period = tokio::time::interval(UPDATE_PERIOD);
        let mut round = 0;
        while !is_over.load(Ordering::Relaxed) {
            period.tick().await;
            for at in 0..CHANGED {
                let (lock, turn) = ((round * CHANGED + at) % ROWS, (round * CHANGED + at) / ROWS);
                self.client.delete(&Self::path(lock, turn), None).await.unwrap();
                drop(self.client.create(Self::contender(lock, turn + WAITERS + 1)).await.unwrap());
            }
            round += 1;
        }
    }
}

/// Pages that are open somewhere, as far as the monitor knows.
struct OpenPages {
    streams: Vec<TcpStream>,
    told: Arc<AtomicUsize>,
}

impl OpenPages {
    /// Opens pages, and waits until each was told what had changed meanwhile.
    fn open(address: &str, count: usize) -> Self {
        let told = Arc::new(AtomicUsize::new(0));
        let page = get(address, "/?sort=name");
        let live = page.split_once("data-live=\"").unwrap().1.split('"').next().unwrap();
        let open = |_| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET /{live} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            let (mut reading, told) = (stream.try_clone().unwrap(), Arc::clone(&told));
            thread::spawn(move || {
                let mut bytes = [0; 1 << 16];
                while let Ok(count @ 1..) = reading.read(&mut bytes) {
                    let news = bytes[..count].windows(11).filter(|window| window == b"event: news").count();
                    told.fetch_add(news, Ordering::Relaxed);
                }
            });
            stream
        };
        let pages = Self { streams: (0..count).map(open).collect(), told };
        let are_told = || (pages.told.load(Ordering::Relaxed) >= count).then_some(());
        eventually("each page is told the first news", are_told);
        pages
    }
}

impl Drop for OpenPages {
    fn drop(&mut self) {
        self.streams.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    }
}

/// The time since 1970, in milliseconds: ages on a page count from now on.
#[expect(clippy::disallowed_methods, reason = "contenders say since when they are there")]
fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The percentage of a processor that some processes use in this time. One that ends meanwhile, as a spare one of a
/// browser may, counts no more.
#[expect(clippy::disallowed_methods, reason = "it is measured for this time")]
fn measured(ids: &[u32], time: Duration) -> f64 {
    let used = || ids.iter().map(|&id| process::processor_time(id).ok()).collect::<Vec<_>>();
    let (begun, before) = (now(), used());
    thread::sleep(time);
    let (after, took) = (used(), begun.elapsed());
    let differences = before.into_iter().zip(after).filter_map(|(before, after)| Some(after?.saturating_sub(before?)));
    let differences: Vec<Duration> = differences.collect();
    assert!(!differences.is_empty(), "all of {ids:?} have ended");
    differences.iter().sum::<Duration>().as_secs_f64() / took.as_secs_f64() * 100.0
}

/// What pages cost a monitor: without one, with one, and with many.
fn assert_pages_cost_little(monitor: &Serving) {
    let turns = (long::time(MEASURED_FOR).as_secs_f64() / TURN.as_secs_f64()).max(1.0) as u32;
    let time = long::time(MEASURED_FOR) / turns;
    let (mut used, mut told) = ([0.0; 3], [0; 3]);
    // In turns, since what else the machine does changes what everything costs.
    for _ in 0..turns {
        for (at, count) in [0, 1, PAGES].into_iter().enumerate() {
            let pages = OpenPages::open(&monitor.at, count);
            let before = pages.told.load(Ordering::Relaxed);
            used[at] += measured(&[monitor.id()], time) / f64::from(turns);
            told[at] += pages.told.load(Ordering::Relaxed) - before;
        }
    }
    // A machine with other work to do tells less often.
    let tellings = long::time(MEASURED_FOR).div_duration_f64(UPDATE_PERIOD);
    let told = [(1, 1), (2, PAGES)].map(|(at, pages)| told[at] as f64 / pages as f64 / tellings);
    let [one, many] = [1, 2].map(|at| (used[at] - used[0]) / told[at - 1]);
    let (build, times) = (if cfg!(debug_assertions) { "not optimized" } else { "optimized" }, many / one);
    let told_of = format!(
        "page, {LOCKS} locks, {} waiters, {CHANGED} changed rows 4 times a second, {build}: the monitor uses {:.2} % \
         of a processor without a page, {one:.2} % more with one, {many:.2} % more with {PAGES}: {times:.2} times as \
         much; {told:.2?} of all tellings were on time",
        LOCKS * WAITERS,
        used[0],
    );
    figures::tell(&told_of);
    // Seconds are too short beside other work, and so is what one page costs in them.
    if long::is_asked_for() {
        let is_little = told.iter().all(|told| *told > 0.2) && one <= COST_MAX && times <= PAGES_COST_MAX;
        assert!(is_little, "{told_of}; what users pay, a build with --release tells");
    }
}

/// How a browser draws a page, and what it costs it.
fn assert_a_browser_draws_it(monitor: &Serving) {
    let browser = Browser::start().unwrap();
    let drawn = (0..3).map(|_| {
        browser.open(&format!("http://{}/?sort=name", monitor.at)).unwrap();
        let drawn = "return [document.querySelectorAll('tbody tr').length,
            performance.getEntriesByName('first-contentful-paint')[0]?.startTime]";
        let drawn = eventually("the page is painted", || {
            let drawn = browser.run(drawn).unwrap();
            drawn[1].as_f64().map(|millis| (drawn[0].clone(), Duration::from_secs_f64(millis / 1e3)))
        });
        assert_eq!(drawn.0, json!(ROWS));
        drawn.1
    });
    let drawn = drawn.min().unwrap();
    let told = "window.news = 0; new MutationObserver(() => window.news += 1)
        .observe(document.body, { attributeFilter: ['data-told'] })";
    browser.run(told).unwrap();
    let stream = OpenPages::open(&monitor.at, 1);
    // All of its processes: the one that draws the page, and those that bring the news and put it on the screen.
    let cost = measured(&browser.processes(), long::time(MEASURED_FOR));
    let told = eventually("the page is told of changes", || {
        browser.run("return window.news").unwrap().as_u64().filter(|&told| told > 0)
    });
    let streamed = stream.told.load(Ordering::Relaxed);
    figures::tell(&format!(
        "page, {ROWS} of {LOCKS} locks: drawn in a browser after {drawn:.2?}, {cost:.2} % of a processor to keep it \
         true, told {told} times in {:?}",
        long::time(MEASURED_FOR),
    ));
    if long::is_asked_for() {
        // A machine with other work to do tells less often.
        let half = u64::try_from(streamed / 2).unwrap();
        assert!(half > 0 && told >= half, "{told} times, and a stream {streamed} times");
        assert!(drawn <= DRAWN_WITHIN, "{drawn:?}");
        assert!(cost <= COST_MAX, "{cost:.2} %");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_thousand_locks_is_drawn_at_once_and_costs_little() {
    if !browser::availability().or_skip("a_page_of_a_thousand_locks_is_drawn_at_once_and_costs_little") {
        return;
    }
    let place = Place::new();
    let server = Serving::start(&place, &["server", "--listen", "127.0.0.1:0"], "lockkeeper: serving ");
    let fleet = Fleet::join_all(&server.at).await;
    let monitor = ["monitor", "--listen", "127.0.0.1:0", "--connect", &server.at];
    let monitor = Serving::start(&place, &monitor, ", at http://");
    let waiting = format!("<dt>Waiting</dt><dd>{},000</dd>", LOCKS * WAITERS / 1_000);
    eventually("all are known", || get(&monitor.at, "/").contains(&waiting).then_some(()));
    let is_over = Arc::new(AtomicBool::new(false));
    let changing = tokio::spawn(fleet.change(Arc::clone(&is_over)));
    assert_a_browser_draws_it(&monitor);
    assert_pages_cost_little(&monitor);
    is_over.store(true, Ordering::Relaxed);
    changing.await.unwrap();
}
