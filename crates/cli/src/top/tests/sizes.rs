//! Windows of every size: with much that is wrong and a long outcome of an order, all is drawn within them.

use super::scene::{Scene, granted, mutex, of_thread};

/// Five things are wrong: a lost service, and four deadlocks of two threads each.
fn scene() -> Scene {
    let mut scene = Scene::new();
    for number in 0..4_u32 {
        let (one, other) = (format!("{number:016x}"), format!("{:016x}", number + 100));
        let names = [format!("a{number}"), format!("b{number}")];
        for (name, holder, waiter) in [(&names[0], &one, &other), (&names[1], &other, &one)] {
            let (holds, waits) = (number * 2 + 1, number * 2 + 2);
            let queue = [
                of_thread(granted(holds, 1), &format!("{name}-holds"), holder),
                of_thread(mutex(waits), &format!("{name}-waits"), waiter),
            ];
            scene.queue(name, &queue);
        }
    }
    scene.search();
    scene.after(10);
    scene.search();
    scene.lose("connection refused");
    scene.screen();
    scene
}

#[test]
fn every_view_is_drawn_in_a_window_of_any_size() {
    // The list, a queue with a chosen contender, what is wrong, the help, the filter, and each question.
    for keys in ["", "j\nj", "p", "?", "/a", "jr", "jb", "jf", "jt"] {
        let mut scene = scene();
        scene.keys(keys);
        assert_eq!(scene.app.sight.problems.len(), 5, "{:?}", scene.app.sight.problems);
        // Of each lock, with two lines each: the most that stands above a queue.
        for problem in &mut scene.app.sight.problems {
            problem.locks.clear();
            problem.cure = Some("lockkeeper show a0".to_owned());
        }
        let text = "what came of the order is said in a sentence that is long ".repeat(8);
        for outcome in [None, Some(text)] {
            if let Some(text) = outcome {
                scene.app.done(Err(text));
            }
            for height in 1..=40 {
                for width in (1..=120).step_by(40).chain([39, 40, 66, 120]) {
                    scene.size = (width, height);
                    let lines = scene.draw();
                    assert_eq!(lines.len(), usize::from(height), "{keys:?} {width} x {height}");
                    let has_keys = lines[lines.len() - 1].ends_with("q quit");
                    let is_large = width >= 40 && height >= 10;
                    assert!(has_keys || !is_large || !matches!(keys, "" | "j\nj"), "{lines:#?}");
                }
            }
        }
    }
}
