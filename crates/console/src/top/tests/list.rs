//! The screen as a whole: the list, a queue, what is wrong, the help, and windows of other sizes.

use lockkeeper::{ContenderId, ContenderInfo, Mode, Revocation};

use super::scene::{Scene, contender, granted, mutex, name, of_thread};
use crate::top::app::Notice;
use crate::top::input::KeyPress;

const LIST_KEYS: &str = "enter queue  / filter  s sort  p problems  r f t b orders  ? help  q quit";

/// Three locks: the busiest, one that is held, one that readers share.
fn three() -> Scene {
    let mut scene = Scene::new();
    scene.queue("nightly", &[granted(1, 42), mutex(2), mutex(3)]);
    scene.queue("quiet", &[granted(4, 7)]);
    scene.queue("catalogue", &[contender(5, Mode::Read), contender(6, Mode::Read), contender(7, Mode::Write)]);
    scene.after(75);
    scene
}

/// The same, and two threads that wait for each other, for 12 seconds as far as that was seen.
fn deadlocked() -> Scene {
    let mut scene = three();
    let (one, other) = ("00000000000000aa", "00000000000000bb");
    scene.queue("books", &[of_thread(granted(1, 5), "c11", one), of_thread(mutex(2), "c12", other)]);
    scene.queue("stock", &[of_thread(granted(2, 6), "c21", other), of_thread(mutex(1), "c22", one)]);
    scene.search();
    scene.after(12);
    scene.search();
    scene
}

/// Asserts that the screen shows these lines at its head and those at its foot, and nothing between.
#[track_caller]
fn assert_screen(scene: &mut Scene, head: &[&str], foot: &[&str]) {
    let screen = scene.screen();
    assert_eq!(screen.len(), usize::from(scene.size.1));
    assert_eq!(screen[..head.len()], *head, "{screen:#?}");
    assert_eq!(screen[screen.len() - foot.len()..], *foot, "{screen:#?}");
    assert!(screen[head.len()..screen.len() - foot.len()].iter().all(String::is_empty), "{screen:#?}");
}

#[test]
fn a_service_without_locks_says_so_once_it_was_seen() {
    let mut scene = Scene::new();
    let head = [
        "Lockkeeper  zk://zk1:2181                                                   live",
        "0 locks in use, 0 waiting",
        "LOCK         KIND       WAITING  OLDEST    HELD HOLDER",
        "no lock is in use",
    ];
    assert_screen(&mut scene, &head, &["sorted by waiters", LIST_KEYS]);
    scene.state = lockkeeper_monitor::MonitorState::default();
    let screen = scene.screen();
    assert!(
        screen[0].ends_with("nothing seen yet") && !screen.iter().any(|line| line.contains("no lock")),
        "{screen:?}"
    );
}

#[test]
fn the_list_has_the_busiest_lock_first() {
    let head = [
        "Lockkeeper  zk://zk1:2181                                                   live",
        "3 locks in use, 3 waiting, longest for 1m15s: catalogue",
        "LOCK         KIND       WAITING  OLDEST    HELD HOLDER",
        "nightly      mutex            2   1m15s   1m15s web-1 pid 4001 backup.sh",
        "catalogue    rwlock           1   1m15s   1m15s web-5 pid 4005 backup.sh, web-6…",
        "quiet        mutex            0       -   1m15s web-4 pid 4004 backup.sh",
    ];
    assert_screen(&mut three(), &head, &["sorted by waiters", LIST_KEYS]);
}

#[test]
fn a_wide_window_shows_how_many_waited_for_each_lock_in_the_last_hour() {
    let mut scene = three();
    scene.size.0 = 110;
    scene.queue("nightly", &[granted(1, 42)]);
    let screen = scene.screen();
    let column = screen[2].find("LAST HOUR").unwrap_or_else(|| panic!("{screen:#?}"));
    let hour = |name: &str| -> String {
        let line = screen.iter().find(|line| line.starts_with(name)).unwrap();
        line.chars().skip(column).take(12).collect()
    };
    assert!(hour("nightly").ends_with('█') && hour("nightly").starts_with('▁'), "{screen:#?}");
    assert_eq!(hour("quiet").trim(), "", "{screen:#?}");
    scene.size.0 = 80;
    assert!(!scene.screen()[2].contains("LAST HOUR"));
}

#[test]
fn a_queue_is_in_order_with_what_is_known_of_the_chosen_contender() {
    let mut scene = three();
    let mut last = of_thread(mutex(3), "c3", "00000000000000aa");
    last.session = Some("0x1a".to_owned());
    last.caller.until_unix = last.since_unix.map(|since| since + std::time::Duration::from_secs(95));
    last.revocation = Some(Revocation::new(Some("deploying".to_owned()), None));
    scene.queue("nightly", &[granted(1, 42), mutex(2), last]);
    scene.keys("j\njj");
    scene.key(KeyPress::Down);
    let head = [
        "Lockkeeper  zk://zk1:2181                                                   live",
        "nightly  mutex, held for 1m15s, 2 waiting, oldest wait 1m15s",
        "   # STATE   MODE         SINCE TOKEN WHO",
        "   1 holds   mutex        1m15s 42    web-1 pid 4001 backup.sh",
        "   2 waits   mutex        1m15s -     web-2 pid 4002 backup.sh",
        "   3 waits   mutex        1m15s -     web-3 pid 4003 backup.sh",
        "",
        "waiting in the last hour ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█ 2 at most",
    ];
    let foot = [
        "3. web-3 pid 4003 backup.sh",
        "id c3                                   session 0x1a",
        "process 00000000000000aa, flow h1",
        "here for 1m15s, since 2025-06-15T15:06:40.000Z",
        "gives up in 20s                         its client receives requests to give up",
        "asked to give up: deploying",
        "",
        "esc back  p problems  r revoke  f freeze  t thaw  b break  ? help  q quit",
    ];
    assert_screen(&mut scene, &head, &foot);
}

#[test]
fn a_known_deadlock_is_on_top_with_its_way_out_and_p_tells_its_chain() {
    let mut scene = deadlocked();
    let screen = scene.screen();
    assert_eq!(
        screen[2..4],
        ["! deadlock, known by the same thread, for 12s: books, stock", "  lockkeeper revoke books"]
    );
    assert_eq!(screen[6], "books        mutex            1   1m27s     12s deadlock: web-1 pid 4001 backup…");
    scene.keys("p");
    let head = [
        "Lockkeeper  zk://zk1:2181                                                   live",
        "Problems",
        "! deadlock, known by the same thread, for 12s: books, stock",
        "    1. web-2 pid 4002 backup.sh waits for books for 1m27s; web-1 pid 4001",
        "    backup.sh holds it, and is of one thread with 2.",
        "    2. web-1 pid 4001 backup.sh waits for stock for 1m27s; web-2 pid 4002",
        "    backup.sh holds it, and is of one thread with 1.",
        "    way out: ask web-1 pid 4001 backup.sh to give books up",
        "    lockkeeper revoke books",
    ];
    assert_screen(&mut scene, &head, &["esc: back"]);
    scene.key(KeyPress::Escape);
    scene.keys("/stock\nj\n");
    assert!(scene.screen()[2].starts_with("! deadlock"), "its lock says so too");
    scene.key(KeyPress::Escape);
    scene.key(KeyPress::Escape);
    scene.key(KeyPress::Escape);
    scene.keys("/quiet\nj\n");
    assert!(!scene.screen()[2].starts_with('!'), "another lock does not");
}

#[test]
fn a_lock_that_is_held_long_or_frozen_while_others_wait_is_told_with_the_command() {
    let mut scene = three();
    scene.after(300);
    let mut frozen = granted(9, 50);
    frozen.frozen = Some("new disks".to_owned());
    scene.queue("catalogue", &[frozen, contender(7, Mode::Write)]);
    let screen = scene.screen();
    assert_eq!(
        screen[2..6],
        [
            "! held long: nightly, by web-1 pid 4001 backup.sh for 6m15s or longer; 2 wait",
            "  lockkeeper revoke nightly",
            "! frozen: catalogue, for 6m15s; 1 waits until it is thawed: new disks",
            "  lockkeeper thaw catalogue",
        ]
    );
    assert!(screen[7].ends_with("held long: web-1 pid 4001 backu…"), "{}", screen[7]);
    assert!(screen[8].ends_with("frozen: new disks"), "{}", screen[8]);
}

#[test]
fn a_lost_service_is_told_with_the_time_and_the_reason_while_what_was_known_stays() {
    let mut scene = deadlocked();
    scene.lose("connection refused");
    scene.after(12);
    let screen = scene.screen();
    assert_eq!(screen[0], "Lockkeeper  zk://zk1:2181                                          stale for 12s");
    assert_eq!(screen[2], "! stale since 15:08:07 UTC, for 12s: connect: connection refused");
    assert!(screen[3].starts_with("! deadlock") && screen[6].starts_with("nightly"), "{screen:?}");
}

#[test]
fn problems_without_room_are_counted_and_p_scrolls_them() {
    let mut scene = Scene::new();
    for number in 0..20 {
        let mut frozen = granted(number, 1);
        frozen.frozen = Some("new disks".to_owned());
        scene.queue(&format!("lock-{number:02}"), &[frozen, mutex(100 + number)]);
    }
    let screen = scene.screen();
    assert!(screen[2].starts_with("! frozen: lock-00"), "{screen:?}");
    assert_eq!((screen[8].as_str(), &screen[10][..4]), ("! 17 more: p", "LOCK"));
    scene.keys("p");
    assert_eq!(scene.screen()[23], "esc: back; more below: down");
    for _ in 0..10 {
        scene.key(KeyPress::PageDown);
        scene.screen();
    }
    let screen = scene.screen();
    assert_eq!((screen[2].as_str(), screen[23].as_str()), ("    lockkeeper thaw lock-19", "esc: back"));
}

#[test]
fn what_came_of_an_order_is_above_the_keys_and_help_names_all_keys() {
    let mut scene = three();
    for (outcome, is_failure) in [(Ok("nightly is thawed\n".to_owned()), false), (Err("refused".to_owned()), true)] {
        scene.app.done(outcome.clone());
        let text = outcome.unwrap_or_else(|text| text).trim().to_owned();
        assert_eq!((scene.status(), &scene.app.notice), (text.clone(), &Some(Notice { text, is_failure })));
    }
    scene.keys("?");
    let help = scene.screen();
    for key in ["arrows j k", "enter", "esc", "/", "s", "p", "r", "f", "t", "b", "Ctrl-Z", "q Ctrl-C"] {
        assert!(help.iter().any(|line| line.starts_with(&format!("{key} "))), "{key}: {help:?}");
    }
    scene.keys("x");
    assert_eq!(scene.screen()[3].split(' ').next(), Some("nightly"));
}

#[test]
fn a_narrow_window_leaves_columns_out_and_a_tiny_one_says_what_it_needs() {
    let mut scene = deadlocked();
    scene.size = (50, 12);
    let head = [
        "Lockkeeper  zk://zk1:2181                     live",
        "5 locks in use, 5 waiting, longest for 1m27s: boo…",
        "! deadlock, known by the same thread, for 12s: bo…",
        "  lockkeeper revoke books",
        "LOCK         WAITING    HELD HOLDER",
        "nightly            2   1m27s web-1 pid 4001 backu…",
        "books              1     12s deadlock: web-1 pid …",
        "catalogue          1   1m27s web-5 pid 4005 backu…",
        "stock              1     12s deadlock: web-2 pid …",
        "quiet              0   1m27s web-4 pid 4004 backu…",
    ];
    assert_screen(&mut scene, &head, &["sorted by waiters", "enter queue  / filter  ? help  q quit"]);
    scene.size = (39, 24);
    assert_screen(&mut scene, &["40 x 10 at least"], &[]);
}

#[test]
fn every_view_is_drawn_in_a_window_of_any_size() {
    // The list, a queue with a chosen contender, what is wrong, the help, the filter, and each question.
    for keys in ["", "j\nj", "p", "?", "/a", "jr", "jb", "jf", "jt"] {
        let mut scene = deadlocked();
        scene.lose("connection refused");
        scene.keys(keys);
        scene.app.done(Err("what came of the order is said in a sentence that is long ".repeat(8)));
        for height in 1..=40 {
            for width in [1, 39, 40, 66, 80, 120] {
                scene.size = (width, height);
                let lines = scene.draw();
                assert_eq!(lines.len(), usize::from(height), "{keys:?} {width} x {height}");
                let has_keys = lines[lines.len() - 1].ends_with("q quit");
                assert!(has_keys || width < 40 || height < 10 || !matches!(keys, "" | "j\nj"), "{lines:#?}");
            }
        }
    }
}

#[test]
fn what_would_steer_a_terminal_or_turn_the_reading_direction_is_escaped_everywhere() {
    let harm = "\u{1b}[2J\u{202e}\u{9b}\r\n\u{61c}";
    let mut scene = Scene::new();
    let lock = "\u{202e}door\u{2066}";
    let mut holder = ContenderInfo::new(ContenderId::new(harm), Mode::Mutex);
    holder.label = Some(format!("says {harm}"));
    holder.session = Some(harm.to_owned());
    let mut frozen = granted(9, 50);
    frozen.frozen = Some(harm.to_owned());
    scene.queue(lock, &[holder, mutex(2)]);
    scene.queue("frozen", &[frozen, mutex(3)]);
    scene.after(400);
    scene.lose(harm);
    scene.app.service = format!("file:/{harm}");
    let mut seen = String::new();
    for keys in ["", "p", "p", "/door\nj\n", "j", "r", "n", "f"] {
        scene.keys(keys);
        seen += &scene.screen().join("\n");
        let screen = scene.screen().join("\n");
        let is_harmful = |letter: char| letter != '\n' && crate::output::is_harmful(letter);
        assert!(!screen.contains(is_harmful), "{keys}: {screen:?}");
    }
    assert_eq!(scene.app.lock, Some(name(lock)));
    scene.app.handle(crate::top::input::TerminalInput::Pasted(harm.to_owned()));
    seen += &scene.screen().join("\n");
    for shown in ["\\u{202e}door\\u{2066}", "says \\u{1b}[2J\\u{202e}", "why: \\u{1b}[2J\\u{202e}\\u{9b}"] {
        assert!(seen.contains(shown), "{shown}: {seen}");
    }
}
