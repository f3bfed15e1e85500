//! The monitor's page, in a real browser and without one: what it shows, and to whom it can be read.
//!
//! `page_services` has what is claimed on each service, `page_keyboard` who has no mouse.

use lockkeeper_faults::browser::{Browser, availability, axe_availability};
use serde_json::{Value, json};

use crate::crossing::{Claim, Crossing};
use crate::monitor::Monitor;
use crate::support::{Place, Running, can_run, eventually};

/// Pairs of labels in the picture that is shown of which one lies upon the other, and labels that leave their box.
const LABELS: &str = "
    const boxes = [...document.querySelectorAll('svg.pic')].filter((pic) => pic.getBoundingClientRect().width > 0)
        .flatMap((pic) => [...pic.querySelectorAll('g')]).map((group) => ({
            text: [...group.querySelectorAll('text')].map((text) => text.getBoundingClientRect()),
            rect: group.querySelector('rect').getBoundingClientRect() }));
    const bad = [];
    boxes.forEach(({ text, rect }, at) => {
        for (const one of text)
            if (one.left < rect.left || one.right > rect.right || one.top < rect.top || one.bottom > rect.bottom)
                bad.push(['leaves its box', at]);
        boxes.slice(at + 1).forEach(({ rect: other }, behind) => {
            if (rect.left < other.right && other.left < rect.right
                && rect.top < other.bottom && other.top < rect.bottom)
                bad.push(['upon', at, at + 1 + behind]);
        });
    });
    return [boxes.length, bad]";

/// The contrast of two colors by WCAG's formula, and what color is behind an element.
pub(crate) const COLORS: &str = "
    const color = (text) => text.match(/[\\d.]+/g).map(Number);
    const part = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    const contrast = (one, other) => (Math.max(light(one), light(other)) + 0.05)
        / (Math.min(light(one), light(other)) + 0.05);
    const ground = (element) => {
        for (; element; element = element.parentElement) {
            const found = color(getComputedStyle(element).backgroundColor);
            if (found.length === 3 || found[3] > 0) return found;
        }
        return [255, 255, 255];
    };";

/// The least contrast of a text with what is behind it, and where; after [`COLORS`].
const CONTRAST: &str = "
    let least = [99, ''];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        const isShown = element.getClientRects().length && !element.closest('.vh, .skip');
        if (!isShown || !walk.currentNode.data.trim()) continue;
        const style = getComputedStyle(element);
        const box = element.closest('g')?.querySelector('rect');
        const behind = box ? color(getComputedStyle(box).fill) : ground(element);
        const found = contrast(behind, color(box ? style.fill : style.color));
        if (found < least[0]) least = [found, element.outerHTML.slice(0, 200)];
    }
    return least";

/// A browser; where there is none, the test is skipped.
pub(crate) fn browser() -> Option<Browser> {
    can_run(availability()).then(|| Browser::start().unwrap())
}

pub(crate) fn url(monitor: &Monitor, path: &str) -> String {
    format!("http://{}/{path}", monitor.address())
}

pub(crate) fn ask(browser: &Browser, script: &str) -> Value {
    browser.run(script).unwrap_or_else(|error| panic!("{error}"))
}

/// A command that waits for a lock and then holds it until it is told to end.
pub(crate) fn contend(place: &Place, lock: &str) -> Running {
    Running::with_input(&mut place.command(&["run", "-q", lock, "--", "sh", "-c", "read line"]))
}

#[test]
fn rows_of_the_list_change_in_their_places_and_a_new_lock_is_only_told_of() {
    let Some(browser) = browser() else { return };
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    let _holders = [place.hold("a"), place.hold("b")];
    eventually("both are known", || monitor.get("/api/locks").1.contains("\"total\":2").then_some(()));
    browser.open(&url(&monitor, "?sort=waiting")).unwrap();
    ask(&browser, "document.querySelector('tbody tr:last-child a').focus(); window.stays = true");
    let _waiting = contend(&place, "b");
    let _new = place.hold("c");
    let shown =
        "return [[...document.querySelectorAll('tbody tr')].map((row) => row.querySelector('.name').textContent),
        document.querySelector('tbody tr:last-child [data-l=waiting]').textContent, document.activeElement.textContent,
        window.stays, !document.getElementById('more').hidden, document.getElementById('live').textContent]";
    let expected = json!([["a", "b"], "1", "b", true, true, "live"]);
    eventually("the change is shown", || (ask(&browser, shown) == expected).then_some(()));
}

#[test]
fn a_deadlock_is_on_the_page_with_its_picture_and_all_can_be_read_on_any_screen() {
    if !can_run(axe_availability()) {
        return;
    }
    let Some(browser) = browser() else { return };
    let (door, gate): (Claim<'_>, Claim<'_>) = (&["door"], &["a/very/long/name/of/a/gate/WWWWWWWW/鍵鍵鍵鍵鍵鍵"]);
    let place = Place::new();
    assert_eq!(place.run(&["freeze", "cellar", "--reason", "being painted"]).code, Some(0));
    let _waits = contend(&place, "cellar");
    let monitor = Monitor::start(&place, &[]);
    browser.open(&url(&monitor, "")).unwrap();
    let _crossing = Crossing::new(place, [[door, gate], [gate, door]]);
    let card = "return document.querySelector('.problem:not(.mild) svg.pic.w') !== null
        && document.querySelectorAll('.problem:not(.mild) ol li').length";
    eventually("the deadlock", || (ask(&browser, card) == json!(2)).then_some(()));
    for (width, height) in [(1_280, 900), (390, 844)] {
        browser.resize(width, height).unwrap();
        let labels = ask(&browser, LABELS);
        assert_eq!(labels[1], json!([]), "{width}: {labels}");
        assert!(labels[0].as_u64() >= Some(4), "{labels}");
        let is_wider = ask(&browser, "return document.documentElement.scrollWidth > innerWidth");
        assert_eq!(is_wider, json!(false), "{width}");
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).unwrap();
            let contrast = ask(&browser, &format!("{COLORS} {CONTRAST}"));
            assert!(contrast[0].as_f64() >= Some(4.5), "{width} {scheme}: {contrast}");
        }
    }
    for page in ["", "lock?name=door", "lock?name=cellar"] {
        browser.open(&url(&monitor, page)).unwrap();
        let obstacles = browser.obstacles().unwrap();
        assert_eq!(obstacles, [], "{page}");
    }
}

#[test]
fn a_page_says_that_its_monitor_is_gone_and_loads_anew_when_there_is_another_one() {
    let Some(browser) = browser() else { return };
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    let address = monitor.address().to_owned();
    browser.open(&url(&monitor, "")).unwrap();
    ask(&browser, "window.stays = true");
    monitor.stop();
    let says = "return document.getElementById('live').textContent";
    eventually("it says so", || (ask(&browser, says) == "the monitor does not answer").then_some(()));
    let _holder = place.hold("new");
    let _monitor = Monitor::start_at(&place, &address, &[]);
    let is_anew = "return window.stays === undefined && document.body.textContent.includes('new')";
    eventually("it is loaded anew", || (ask(&browser, is_anew) == json!(true)).then_some(()));
}

#[test]
fn without_a_script_the_list_is_filtered_sorted_and_leads_to_each_lock() {
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    let _holders = [place.hold("alpha"), place.hold("beta")];
    let _waiting = contend(&place, "beta");
    let is_known = || monitor.get("/api/locks").1.contains("\"waiters\":1").then_some(());
    eventually("all are known", is_known);
    let names = |query: &str| -> Vec<String> {
        let (status, page) = monitor.get(&format!("/{query}"));
        assert_eq!(status, 200, "{page}");
        let links = page.split("<a class=\"name\" href=\"lock?name=").skip(1);
        links.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("", &["beta", "alpha"][..]),
        ("?sort=name", &["alpha", "beta"]),
        ("?q=LPH", &["alpha"]),
        ("?q=pid", &["beta", "alpha"]),
        ("?waited=1", &["beta"]),
        ("?kind=mutex&sort=name", &["alpha", "beta"]),
        ("?kind=semaphore", &[]),
        ("?page=7", &["beta", "alpha"]),
    ] {
        assert_eq!(names(query), expected, "{query}");
    }
    let (status, refusal) = monitor.get("/?sort=%1B%E2%80%AEcolour");
    assert!(status == 400 && refusal.contains("\\u{1b}\\u{202e}colour"), "{refusal:?}");
    let (status, page) = monitor.get("/lock?name=beta");
    assert!(status == 200 && page.contains(">holds<") && page.contains(">waits<"), "{page}");
    assert_eq!((monitor.get("/lock?name=a%0Ab").0, monitor.get("/lock").0), (400, 400));
    assert!(monitor.get("/lock?name=free").1.contains("Nothing holds it"));
    assert_eq!(monitor.ask("GET /", &["Host: evil.example".to_owned()], "").status, 421);
}
