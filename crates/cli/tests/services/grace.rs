//! The time that a command gets to end must fit into what the session leaves.

use crate::support::{Ended, eventually};
use crate::zookeeper::{nodes, server_of_twenty_ticks, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_grace_that_does_not_fit_into_the_session_is_refused_once_the_timeout_is_known() {
    let Some(server) = server_of_twenty_ticks().await else { return };
    // The server grants twenty ticks at most, which are ten seconds.
    for (settings, options, fits) in [
        ("?session_timeout=10s&tick=500ms", &["--grace", "4.4s"][..], true),
        ("?session_timeout=10s&tick=500ms", &["--grace", "5.4s"], false),
        ("?session_timeout=60s&tick=500ms", &["--grace", "4.4s"], true),
        ("?session_timeout=60s&tick=500ms", &["--grace", "20s", "--on-loss", "warn"], true),
        ("?session_timeout=4s&tick=4s", &[], false),
    ] {
        let site = site(&server, settings);
        let line = [&["run"], options, &["job", "--", "sh", "-c", "echo ran"]].concat();
        if fits {
            // Such a hold ends where the machine stands still for a moment.
            eventually("it runs to its end", || {
                let Ended { code, stdout, stderr } = site.run(&line);
                assert!(matches!(code, Some(0 | 123)), "{settings} {options:?}: {stderr}");
                ((code, stdout.as_str(), stderr.as_str()) == (Some(0), "ran\n", "")).then_some(())
            });
        } else {
            let ended = site.run(&line);
            let line = ended.assert_refused(125, &["a longer session timeout"]);
            assert!(line.starts_with("lockkeeper: job (zk://"), "{settings} {options:?}: {line}");
        }
        assert_eq!(nodes(&server).await, [""; 0], "{settings} {options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_queues_for_a_lock_under_which_the_grace_would_not_fit() {
    let Some(server) = server_of_twenty_ticks().await else { return };
    let site = site(&server, "?session_timeout=10s&tick=500ms");
    let holder = site.hold("job");
    for wait in [&[][..], &["-n"], &["-w", "60s"]] {
        let options = [&["run", "--grace", "6s"], wait].concat();
        let ended = site.run(&[&options[..], &["job", "--", "true"]].concat());
        ended.assert_refused(125, &["a grace of 6s does not fit"]);
        assert_eq!(nodes(&server).await.len(), 1, "{wait:?}: the holder's alone is there");
    }
    holder.end();
    assert_eq!(nodes(&server).await, [""; 0]);
}
