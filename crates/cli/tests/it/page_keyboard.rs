//! The monitor's page without a mouse: every control is reached by the Tab key, in the order of the page, and shows
//! that it has the focus.

use std::collections::BTreeSet;

use lockkeeper_faults::browser::Browser;
use serde_json::json;

use crate::crossing::Crossing;
use crate::monitor::Monitor;
use crate::page::{COLORS, ask, browser, contend, url};
use crate::support::{Place, eventually};

/// The keys, as WebDriver names them.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// More than any page of these tests has controls.
const CONTROLS_MAX: usize = 100;

/// All controls in the order of the page. A page that is told of changes replaces them by others of the same number.
const CONTROLS: &str = "
    const kinds = 'a[href], button, input:not([type=hidden]), select, summary, [tabindex]';
    const controls = [...document.querySelectorAll(kinds)];";

/// The number of the control that has the focus, whether it is on the screen, and what shows that it has it: the width
/// of its outline and the contrast of that with what is behind it.
const FOCUSED: &str = "
    const control = document.activeElement;
    if (!control || control === document.body) return null;
    const style = getComputedStyle(control), box = control.getBoundingClientRect();
    const isSeen = box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= innerWidth + 1
        && document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2)
            .some((hit) => control.contains(hit));
    return [controls.indexOf(control), isSeen, style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
        contrast(ground(control.parentElement), color(style.outlineColor)), control.outerHTML.slice(0, 200)]";

/// Opens a page, and waits until it was told of the changes since it was made: that may replace what has the focus.
fn open(browser: &Browser, monitor: &Monitor, page: &str) {
    browser.open(&url(monitor, page)).unwrap();
    wait_until_told(browser);
}

fn wait_until_told(browser: &Browser) {
    let is_told = "return document.body.dataset.told !== undefined";
    eventually("the page is told of changes", || (ask(browser, is_told) == json!(true)).then_some(()));
}

/// Walks over a page with the Tab key, and asserts that this reaches every control, and nothing out of order.
fn assert_all_reached(browser: &Browser, page: &str) {
    let count = ask(browser, &format!("{CONTROLS} return controls.length")).as_u64().unwrap();
    assert!(count >= 5 && count < CONTROLS_MAX as u64, "{page}: {count} controls");
    let mut reached = Vec::new();
    for _ in 0..CONTROLS_MAX {
        browser.press(TAB).unwrap();
        let focused = ask(browser, &format!("{COLORS} {CONTROLS} {FOCUSED}"));
        // Behind the last control comes the browser's own window.
        let Some(number) = focused[0].as_u64() else { break };
        if reached.first() == Some(&number) {
            break;
        }
        reached.push(number);
        let (is_seen, width, contrast) = (&focused[1], focused[2].as_f64(), focused[3].as_f64());
        assert_eq!(is_seen, &json!(true), "{page}: it has the focus and is not on the screen: {focused}");
        assert!(width >= Some(2.0) && contrast >= Some(3.0), "{page}: its focus is not shown: {focused}");
    }
    let missing: Vec<_> = (0..count).filter(|number| !reached.contains(number)).collect();
    let of_missing = format!("{CONTROLS} return {missing:?}.map((at) => controls[at]?.outerHTML)");
    assert!(missing.is_empty(), "{page}: not reached: {}", ask(browser, &of_missing));
    assert!(reached.is_sorted(), "{page}: {reached:?}");
    assert_eq!(reached.iter().collect::<BTreeSet<_>>().len(), reached.len(), "{page}: {reached:?}");
}

#[test]
fn every_control_is_reached_by_keys_and_shows_its_focus() {
    let Some(browser) = browser() else { return };
    let place = Place::new();
    let _holder = place.hold("cellar");
    let _waiting = contend(&place, "cellar");
    let monitor = Monitor::start(&place, &[]);
    browser.open(&url(&monitor, "")).unwrap();
    let _crossing = Crossing::door_and_gate(place);
    let is_told = "return document.querySelectorAll('.problem').length === 1";
    eventually("the deadlock is shown", || (ask(&browser, is_told) == json!(true)).then_some(()));
    for (width, height) in [(1_280, 900), (390, 844)] {
        browser.resize(width, height).unwrap();
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).unwrap();
            for page in ["", "?sort=name&waited=1", "lock?name=cellar", "lock?name=door"] {
                open(&browser, &monitor, page);
                assert_all_reached(&browser, &format!("{page} at {width}, {scheme}"));
            }
        }
    }
}

#[test]
fn the_list_is_filtered_and_a_lock_is_opened_by_keys_alone() {
    let Some(browser) = browser() else { return };
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    let _holders = [place.hold("attic"), place.hold("cellar")];
    let _waiting = contend(&place, "cellar");
    eventually("all are known", || monitor.get("/api/locks").1.contains("\"waiters\":1").then_some(()));
    open(&browser, &monitor, "");
    let has_focus = |selector: &str| ask(&browser, &format!("return document.activeElement.matches({selector:?})"));
    let tab_to = |selector: &str| {
        let reached = (0..CONTROLS_MAX).any(|_| {
            browser.press(TAB).unwrap();
            has_focus(selector) == json!(true)
        });
        assert!(reached, "{selector}");
    };
    // The first control leads past the head of the page.
    browser.press(TAB).unwrap();
    assert_eq!(has_focus(".skip"), json!(true));
    browser.press(ENTER).unwrap();
    browser.press(TAB).unwrap();
    assert_eq!(ask(&browser, "return document.activeElement.closest('main') !== null"), json!(true));
    open(&browser, &monitor, "");
    tab_to("#q");
    browser.press("cell").unwrap();
    tab_to("input[name=waited]");
    browser.press(" ").unwrap();
    tab_to("form button");
    browser.press(ENTER).unwrap();
    let names = "return [...document.querySelectorAll('tbody .name')].map((name) => name.textContent)";
    eventually("the list is filtered", || (ask(&browser, names) == json!(["cellar"])).then_some(()));
    wait_until_told(&browser);
    tab_to("tbody .name");
    browser.press(ENTER).unwrap();
    let heading = "return document.querySelector('h1').textContent";
    eventually("the lock is opened", || (ask(&browser, heading) == json!("cellar")).then_some(()));
}

/// The links to one lock from what is wrong: it is held for long, and many wait for it.
const SAME_LINKS: &str = "const same = [...document.querySelectorAll('#problems a[href=\"lock?name=books\"]')];";

#[test]
fn the_focus_stays_on_the_second_of_two_links_to_one_place_when_the_part_around_it_changes() {
    let Some(browser) = browser() else { return };
    let place = Place::new();
    place.file(".config/lockkeeper/config.toml", "[monitor]\nlong_hold_threshold = '1s'\ncontention_threshold = 1\n");
    let _holder = place.hold("books");
    let _waiting = [contend(&place, "books"), contend(&place, "books")];
    let monitor = Monitor::start(&place, &[]);
    open(&browser, &monitor, "");
    let is_there = format!("{SAME_LINKS} return same.length");
    eventually("both links are shown", || (ask(&browser, &is_there) == json!(2)).then_some(()));
    ask(&browser, &format!("{SAME_LINKS} same[1].focus(); return null"));
    let tells = |words: &str| {
        format!(
            "{SAME_LINKS} return [document.getElementById('problems').textContent.includes('{words}'),
                same.indexOf(document.activeElement)]"
        )
    };
    let _more = contend(&place, "books");
    let told = tells("3 wait");
    eventually("three wait", || (ask(&browser, &told)[0] == json!(true)).then_some(()));
    assert_eq!(ask(&browser, &told), json!([true, 1]));
    // A card that comes before theirs moves them down.
    let _first = place.hold("atlas");
    let _waiting = contend(&place, "atlas");
    let told = tells("atlas");
    eventually("another card is there", || (ask(&browser, &told)[0] == json!(true)).then_some(()));
    assert_eq!(ask(&browser, &told), json!([true, 1]));
}
