//! Tests of orders: the question before one, what it meets, and what is said of it.

use std::time::Duration;

use lockkeeper::{ContenderId, FencingToken, LockKind, Mode};

use super::scene::{Scene, contender, granted, mutex, name};
use crate::ordering::{OperatorOrder, SeenContender};
use crate::top::app::AppEffect;
use crate::top::input::{KeyPress, TerminalInput};

/// A held lock with a waiter, chosen.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.queue("nightly", &[granted(1, 42), mutex(2)]);
    scene.screen();
    scene.keys("j");
    scene
}

fn seen(id: &str, token: Option<u64>) -> SeenContender {
    SeenContender { id: ContenderId::new(id), token: token.and_then(|token| FencingToken::new(token, 0)) }
}

fn does(order: OperatorOrder) -> Option<AppEffect> {
    Some(AppEffect::Do(name("nightly"), order))
}

/// What is in the frame of the question.
fn asked(scene: &mut Scene) -> Vec<String> {
    let screen = scene.screen();
    let inside = screen.iter().filter_map(|line| line.trim().strip_prefix('│')?.strip_suffix('│'));
    inside.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn r_asks_for_the_holder_that_is_seen_and_only_y_does_it() {
    let mut scene = scene();
    assert_eq!(scene.keys("r"), None);
    assert_eq!(
        asked(&mut scene),
        [
            "lock     nightly",
            "holds    web-1 pid 4001 backup.sh",
            "id c1",
            "token    42",
            "Asks this holder to give the lock up. A `lockkeeper run` ends its",
            "command for it.",
            "y does it; n or Esc does nothing",
        ]
    );
    assert_eq!(scene.keys("rx\nb"), None, "other keys do nothing");
    // Another one holds it by now, and the question stays what it was.
    scene.queue("nightly", &[granted(2, 43)]);
    assert_eq!(asked(&mut scene)[1], "holds    web-1 pid 4001 backup.sh");
    let revoke = OperatorOrder::Revoke { holder: seen("c1", Some(42)), reason: None };
    assert_eq!(scene.keys("y"), does(revoke));
    assert_eq!(scene.status(), "revoke nightly, token 42: under way; Esc gives it up");
    scene.keys("r");
    assert_eq!(scene.status(), "an order is under way: one at a time");
    scene.app.done(Err("nightly (zk://zk1:2181) nothing was changed".to_owned()));
    assert_eq!(scene.status(), "nightly (zk://zk1:2181) nothing was changed");
    for key in ["n", "q"] {
        scene.keys("r");
        assert_eq!((scene.keys(key), scene.status().as_str()), (None, "nothing was done"));
    }
    scene.keys("r");
    assert_eq!((scene.key(KeyPress::Escape), scene.status().as_str()), (None, "nothing was done"));
}

#[test]
fn b_wants_the_token_that_is_seen_to_be_typed() {
    let mut scene = scene();
    scene.keys("b");
    let lines = asked(&mut scene);
    assert_eq!(lines[lines.len() - 2..], ["type the token:", "Enter does it; Esc does nothing"]);
    for wrong in ["\n", "41\n", "y\n"] {
        assert_eq!(scene.keys(wrong), None);
        assert!(asked(&mut scene).contains(&"that is not its token; nothing was done".to_owned()));
        scene.key(KeyPress::Clear);
    }
    assert_eq!(scene.keys("421"), None);
    scene.key(KeyPress::Backspace);
    assert_eq!(scene.keys("\n"), does(OperatorOrder::Break { holder: seen("c1", Some(42)) }));
    scene.app.done(Ok("nightly (zk://zk1:2181) is broken\n".to_owned()));
    assert_eq!(scene.status(), "nightly (zk://zk1:2181) is broken");
}

#[test]
fn f_wants_a_reason_and_t_thaws_what_freezes_it() {
    let mut scene = scene();
    scene.keys("t");
    assert_eq!(scene.status(), "nightly is not frozen");
    scene.keys("f");
    assert_eq!(asked(&mut scene)[..2], ["lock     nightly", "held by  web-1 pid 4001 backup.sh"]);
    assert_eq!(scene.keys("  \n"), None);
    assert!(asked(&mut scene).iter().any(|line| line.starts_with("a reason is needed")));
    scene.key(KeyPress::Clear);
    scene.keys("new ");
    scene.app.handle(TerminalInput::Pasted("disks\nq".to_owned()));
    let freeze = OperatorOrder::Freeze { reason: "new disks".to_owned(), wait: Duration::from_secs(600), kind: None };
    assert_eq!(scene.keys("\n"), does(freeze));
    assert_eq!(scene.key(KeyPress::Escape), Some(AppEffect::GiveUp));
    scene.app.done(Ok("nightly is frozen".to_owned()));

    let mut frozen = granted(9, 50);
    frozen.frozen = Some("new disks".to_owned());
    scene.queue("nightly", &[frozen, mutex(2)]);
    assert!(scene.rows()[0].ends_with("frozen: new disks"));
    scene.keys("f");
    assert_eq!(scene.status(), "nightly is frozen already");
    scene.keys("r");
    assert_eq!(scene.status(), "nightly has no holder");
    scene.keys("t");
    assert_eq!(asked(&mut scene)[1..4], ["freezes  web-9 pid 4009 backup.sh", "id c9", "token    50"]);
    assert_eq!(scene.keys("y"), does(OperatorOrder::Thaw { freezer: seen("c9", Some(50)) }));
}

#[test]
fn of_several_holders_one_has_to_be_chosen_and_a_waiter_holds_nothing() {
    let mut scene = Scene::new();
    scene.queue("nightly", &[contender(1, Mode::Read), contender(2, Mode::Read), contender(3, Mode::Write)]);
    scene.keys("r");
    assert_eq!(scene.status(), "choose a lock first, by the arrow keys");
    scene.keys("jr");
    assert_eq!(scene.status(), "nightly has several holders: enter, and choose one");
    scene.keys("\nj");
    scene.keys("jr");
    assert_eq!(asked(&mut scene)[1..3], ["holds    web-2 pid 4002 backup.sh", "id c2"]);
    scene.keys("n");
    scene.keys("b");
    let screen = scene.screen();
    assert_eq!(
        screen[21..23],
        ["the service shows no token of web-2 pid 4002 backup.sh, and only a holder with a", "token can be broken"]
    );
    scene.app.done(Err("x".repeat(79) + &" long".repeat(60)));
    let screen = scene.screen();
    assert!(screen[20].starts_with("xxx") && screen[22].ends_with('…'), "{screen:#?}");
    scene.keys("jr");
    assert_eq!(scene.status(), "web-3 pid 4003 backup.sh does not hold nightly: choose a holder");
}

#[test]
fn a_lock_that_nothing_uses_is_frozen_as_the_kind_that_is_chosen() {
    let mut scene = scene();
    scene.queue("nightly", &[]);
    scene.screen();
    scene.keys("f");
    let lines = asked(&mut scene);
    assert_eq!(lines[0], "lock     nightly");
    assert_eq!(lines[lines.len() - 1], "m mutex r rwlock s semaphore e election; Esc does nothing");
    assert_eq!(scene.keys("y\n"), None);
    assert_eq!(scene.keys("s"), None);
    assert_eq!(asked(&mut scene)[1], "held by  nothing");
    let kind = Some(LockKind::Semaphore);
    let freeze = OperatorOrder::Freeze { reason: "new disks".to_owned(), wait: Duration::from_secs(600), kind };
    assert_eq!(scene.keys("new disks\n"), does(freeze));
}

#[test]
fn what_came_of_an_order_stays_when_the_contender_leaves_by_it_and_the_next_order_needs_a_new_choice() {
    let mut scene = scene();
    scene.keys("\n");
    scene.key(KeyPress::Down);
    scene.keys("b42\n");
    scene.app.done(Ok("nightly (zk://zk1:2181) is broken".to_owned()));
    scene.queue("nightly", &[granted(2, 43)]);
    assert_eq!(scene.status(), "nightly (zk://zk1:2181) is broken");
    assert!(scene.app.chosen_contender().is_none());
    for order in ["r", "b"] {
        scene.keys(order);
        assert_eq!(scene.status(), "the chosen contender has left: choose another one first, by the arrow keys");
    }
    scene.key(KeyPress::Down);
    scene.keys("r");
    assert_eq!(asked(&mut scene)[2..4], ["id c2", "token    43"]);
}
