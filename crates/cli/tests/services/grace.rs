//! The time that a command gets to end must fit into what the session leaves.

use crate::site::{Site, can_start, nodes, server_of_twenty_ticks};
use crate::support::{Ended, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_grace_that_does_not_fit_into_the_session_is_refused_once_the_timeout_is_known() {
    if !can_start("grace::a_grace_that_does_not_fit_into_the_session_is_refused_once_the_timeout_is_known") {
        return;
    }
    let server = server_of_twenty_ticks().await;
    // The server grants twenty ticks at most, which are ten seconds.
    for (settings, options, fits) in [
        ("?session_timeout=10s&tick=500ms", &["--grace", "4.4s"][..], true),
        ("?session_timeout=10s&tick=500ms", &["--grace", "5.4s"], false),
        ("?session_timeout=10s&tick=500ms", &[], true),
        ("?session_timeout=60s&tick=500ms", &["--grace", "4.4s"], true),
        ("?session_timeout=60s&tick=500ms", &["--grace", "20s"], false),
        ("?session_timeout=60s&tick=500ms", &["--grace", "20s", "--on-loss", "warn"], true),
        ("?session_timeout=4s&tick=4s", &[], false),
    ] {
        let site = Site::new(&server.address().to_string(), settings);
        let line = [&["run"], options, &["job", "--", "sh", "-c", "echo ran"]].concat();
        if fits {
            // Such a hold ends where the machine stands still for a moment.
            eventually("it runs to its end", || {
                let Ended { code, stdout, stderr } = site.place.run(&line);
                assert!(matches!(code, Some(0 | 123)), "{settings} {options:?}: {stderr}");
                ((code, stdout.as_str(), stderr.as_str()) == (Some(0), "ran\n", "")).then_some(())
            });
        } else {
            let Ended { code, stdout, stderr } = site.place.run(&line);
            assert_eq!((code, stdout.as_str()), (Some(125), ""), "{settings} {options:?}");
            assert!(stderr.starts_with("lockkeeper: job (zk://") && stderr.lines().count() == 1, "{stderr}");
            assert!(stderr.contains("a longer session timeout"), "{stderr}");
        }
        assert_eq!(nodes(&server).await, [""; 0], "{settings} {options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_queues_for_a_lock_under_which_the_grace_would_not_fit() {
    if !can_start("grace::no_run_queues_for_a_lock_under_which_the_grace_would_not_fit") {
        return;
    }
    let server = server_of_twenty_ticks().await;
    let site = Site::new(&server.address().to_string(), "?session_timeout=10s&tick=500ms");
    let holder = site.place.hold("job");
    for wait in [&[][..], &["-n"], &["-w", "60s"]] {
        let options = [&["run", "--grace", "6s"], wait].concat();
        let Ended { code, stderr, .. } = site.place.run(&[&options[..], &["job", "--", "true"]].concat());
        assert_eq!(code, Some(125), "{wait:?}: {stderr}");
        assert!(stderr.contains("a grace of 6s does not fit") && stderr.lines().count() == 1, "{wait:?}: {stderr}");
        assert_eq!(nodes(&server).await.len(), 1, "{wait:?}: the holder's alone is there");
    }
    holder.end();
    assert_eq!(nodes(&server).await, [""; 0]);
}
