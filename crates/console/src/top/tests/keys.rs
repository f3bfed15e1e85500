//! Tests of keys: the cursor, the filter, the order, the ways back.

use super::scene::{Scene, contender, granted, mutex, name};
use crate::top::app::{AppEffect, InputMode};
use crate::top::input::{KeyPress, TerminalInput};

/// Locks with 3, 2 and 1 waiters.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.queue("a", &[granted(1, 1), mutex(2), mutex(3), mutex(4)]);
    scene.queue("b", &[granted(5, 2), mutex(6), mutex(7)]);
    scene.queue("c", &[granted(8, 3), mutex(9)]);
    scene.after(5);
    scene
}

/// The first words of the rows.
fn names(scene: &mut Scene) -> String {
    let rows = scene.rows();
    rows.iter().filter_map(|row| row.split_whitespace().next()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_busiest_is_first_until_a_lock_is_chosen_which_keeps_its_line_then() {
    let mut scene = scene();
    assert_eq!(names(&mut scene), "a b c");
    scene.queue("c", &[granted(8, 3), mutex(9), mutex(10), mutex(11), mutex(12)]);
    assert_eq!(names(&mut scene), "c a b");
    scene.key(KeyPress::Down);
    scene.key(KeyPress::Down);
    assert_eq!(scene.app.list.chosen(), Some(&name("a")));
    scene.queue("a", &[granted(1, 1)]);
    assert_eq!(names(&mut scene), "c a b");
    scene.queue("a", &[]);
    assert_eq!(names(&mut scene), "c a b", "it is free, and keeps its line");
    assert!(scene.rows()[1].ends_with("free"));
    scene.queue("b", &[]);
    assert_eq!(names(&mut scene), "c a");
    scene.key(KeyPress::Escape);
    assert_eq!(names(&mut scene), "c");
}

#[test]
fn s_sorts_by_waiters_oldest_wait_hold_and_name_in_turn() {
    let mut scene = Scene::new();
    scene.queue("held-first", &[granted(1, 1)]);
    scene.after(10);
    scene.queue("waited-for", &[granted(2, 2), mutex(3)]);
    scene.after(10);
    scene.queue("busy", &[granted(4, 3), contender(5, lockkeeper::Mode::Mutex), mutex(6)]);
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push((names(&mut scene), scene.status()));
        scene.keys("s");
    }
    let by = |order: usize| (orders[order].0.as_str(), orders[order].1.as_str());
    assert_eq!(by(0), ("busy waited-for held-first", "sorted by waiters"));
    assert_eq!(by(1).1, "sorted by oldest wait");
    assert!(by(1).0.ends_with("held-first"));
    assert_eq!(by(2), ("held-first waited-for busy", "sorted by held"));
    assert_eq!(by(3), ("busy held-first waited-for", "sorted by name"));
    assert_eq!(by(4), by(0));
}

#[test]
fn a_filter_finds_names_hosts_and_programs_and_escape_takes_it_back() {
    let mut scene = scene();
    scene.keys("/B");
    assert_eq!(names(&mut scene), "a b c", "each has a backup.sh");
    assert_eq!(scene.status(), "filter: B_");
    scene.key(KeyPress::Clear);
    scene.keys("web-7");
    assert_eq!(names(&mut scene), "b");
    scene.key(KeyPress::Backspace);
    scene.keys("x");
    assert!(scene.screen().iter().any(|line| line == "no lock is in use that the filter asks for"));
    scene.key(KeyPress::Backspace);
    scene.keys("1\n");
    assert_eq!((names(&mut scene), scene.status()), ("a".to_owned(), "sorted by waiters, filter: web-1".to_owned()));
    scene.key(KeyPress::Escape);
    assert_eq!(names(&mut scene), "a b c");
    scene.app.handle(TerminalInput::Pasted("q\ny".to_owned()));
    assert!(matches!(scene.app.mode, InputMode::Browse) && scene.app.query.filter.is_empty());
    scene.keys("/");
    scene.app.handle(TerminalInput::Pasted("web-8\nq".to_owned()));
    assert_eq!(names(&mut scene), "c");
}

#[test]
fn the_chosen_contender_stays_chosen_when_others_leave_and_none_takes_its_place() {
    let mut scene = scene();
    scene.keys("j\nj");
    scene.key(KeyPress::Down);
    scene.key(KeyPress::Down);
    assert_eq!(scene.app.chosen_contender().map(|one| one.who.as_str()), Some("web-3 pid 4003 backup.sh"));
    scene.queue("a", &[granted(2, 9), mutex(3), mutex(4)]);
    scene.screen();
    assert_eq!(scene.app.chosen_contender().map(|one| one.position), Some(2));
    scene.queue("a", &[granted(2, 9), mutex(4)]);
    assert_eq!(scene.status(), "the chosen contender has left");
    assert!(scene.app.chosen_contender().is_none());
    scene.queue("a", &[]);
    assert!(scene.screen().iter().any(|line| line == "nothing holds it, and nothing waits for it"));
    scene.key(KeyPress::Backspace);
    assert_eq!(names(&mut scene), "a b c");
}

#[test]
fn a_long_list_scrolls_by_lines_and_pages_and_is_cut_with_the_count_of_all() {
    let mut scene = Scene::new();
    for number in 0..600 {
        scene.queue(&format!("lock-{number:03}"), &[granted(number, 1)]);
    }
    let rows = scene.rows();
    assert_eq!((rows.len(), scene.status().as_str()), (19, "sorted by waiters, 500 of 600"));
    scene.key(KeyPress::Down);
    scene.key(KeyPress::PageDown);
    assert!(scene.rows()[18].starts_with("lock-018"));
    scene.key(KeyPress::PageDown);
    assert!(scene.rows()[18].starts_with("lock-036"));
    scene.key(KeyPress::Last);
    assert!(scene.rows()[18].starts_with("lock-499"));
    scene.key(KeyPress::First);
    assert!(scene.rows()[0].starts_with("lock-000"));
}

#[test]
fn quit_interrupt_suspend_and_redraw_are_left_to_the_terminal_in_every_state() {
    for keys in ["", "j\n", "p", "?", "jr", "jb", "/x"] {
        let mut scene = scene();
        scene.keys(keys);
        assert_eq!(scene.key(KeyPress::Interrupt), Some(AppEffect::Interrupt), "{keys}");
        assert_eq!(scene.key(KeyPress::Suspend), Some(AppEffect::Suspend), "{keys}");
        assert_eq!(scene.key(KeyPress::Redraw), Some(AppEffect::Redraw), "{keys}");
    }
    assert_eq!(scene().keys("q"), Some(AppEffect::Quit));
    assert_eq!(scene().keys("j\nq"), Some(AppEffect::Quit));
    let mut typing = scene();
    assert_eq!(typing.keys("/q"), None, "it is a letter of the filter");
}

#[test]
fn a_chosen_lock_beyond_the_rows_is_shown_as_it_is() {
    let mut scene = Scene::new();
    scene.queue("zz-calm", &[granted(1, 7)]);
    scene.screen();
    scene.key(KeyPress::Down);
    for number in 10..600 {
        scene.queue(&format!("lock-{number:03}"), &[granted(number, 1), mutex(number + 1_000)]);
    }
    let row = scene.rows()[0].clone();
    assert!(row.starts_with("zz-calm") && row.ends_with("web-1 pid 4001 backup.sh"), "{row}");
    scene.keys("r");
    assert!(scene.screen().iter().any(|line| line.contains("token    7")));
    scene.keys("n");
    scene.queue("zz-calm", &[]);
    assert!(scene.rows()[0].ends_with("free"));
}
