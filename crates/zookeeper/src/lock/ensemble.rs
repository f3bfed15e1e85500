//! The word of the URL's servers on themselves, and its judgement: whether they are one ensemble, whether it survives a
//! loss, and whether the tick is the one that holds are believed by.
//!
//! Each is asked by four-letter words: a server answers a word on a new connection, before any session, and closes it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Exclusion, Finding, Severity};
use lockkeeper_session::{Failure, Finder, Names, Order, Server, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::dial::Dial;

/// How long a server may take to answer a word. It needs no quorum for that.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The most that is read of an answer, in bytes: those to `srvr` and `conf` have less than a tenth of it.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ServerAnswer {
    /// It cannot be reached: the server, and why.
    Unreachable(String),
    /// It serves no sessions now, since it has no quorum.
    NotServing,
    /// It answers no words, or none that is understood.
    Nothing,
    /// How it is.
    Itself(EnsembleReport),
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct EnsembleReport {
    /// As in `3.8.0`.
    pub(super) version: String,
    /// `standalone`, `leader`, `follower`, `observer`.
    pub(super) mode: String,
    /// If it answers `conf`.
    pub(super) tick: Option<Duration>,
}

pub(super) async fn ask(dial: &Arc<dyn Dial>, clock: &Arc<dyn Clock>, server: &Server) -> ServerAnswer {
    let resolving = dial.clone();
    let names = Names::resolved_by(move |server| resolving.resolve(server));
    let mut finder = Finder::new(&names, vec![server.clone()], Order::Listed, clock.clone());
    let asking = |way: Server, attempt_ends| async move {
        match asked(dial, clock, &way, "srvr", attempt_ends).await {
            Ok(answer) => Ok((way, answer)),
            // It accepted the connection, and closed it at the word.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok((way, String::new())),
            Err(error) => Err(Failure::of_io(&error)),
        }
    };
    let (way, answer) = match finder.round(clock.now().saturating_add(ANSWERED_WITHIN), asking).await {
        Ok(answered) => answered,
        Err(failure) => return ServerAnswer::Unreachable(failure.to_string()),
    };
    match read_srvr(&answer) {
        ServerAnswer::Itself(report) => {
            let conf = asked(dial, clock, &way, "conf", clock.now().saturating_add(ANSWERED_WITHIN)).await;
            ServerAnswer::Itself(EnsembleReport { tick: conf.ok().and_then(|conf| read_tick(&conf)), ..report })
        }
        other => other,
    }
}

async fn asked(
    dial: &Arc<dyn Dial>,
    clock: &Arc<dyn Clock>,
    way: &Server,
    word: &str,
    deadline: BootInstant,
) -> io::Result<String> {
    let asking = async {
        let mut stream = dial.dial(way).await?;
        stream.write_all(word.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    within(clock, deadline.saturating_duration_since(clock.now()), "there was no answer", asking).await
}

fn read_srvr(answer: &str) -> ServerAnswer {
    if answer.contains("not currently serving requests") {
        return ServerAnswer::NotServing;
    }
    let after = |start: &str| answer.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
    match (after("Zookeeper version:"), after("Mode:")) {
        (Some(version), Some(mode)) => {
            let version = version.split([',', '-', ' ']).next().unwrap_or_default().to_owned();
            ServerAnswer::Itself(EnsembleReport { version, mode: mode.to_owned(), tick: None })
        }
        _ => ServerAnswer::Nothing,
    }
}

fn read_tick(answer: &str) -> Option<Duration> {
    let tick_ms = answer.lines().find_map(|line| line.strip_prefix("tickTime="))?;
    tick_ms.trim().parse().ok().map(Duration::from_millis)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceFacts<'a> {
    pub(super) answers: &'a [(String, ServerAnswer)],
    /// How many servers of the ensemble vote by its configuration, if it tells.
    pub(super) voters: Option<usize>,
    pub(super) tick: Option<Duration>,
    pub(super) granted: Duration,
}

pub(super) fn judge(known: ServiceFacts<'_>) -> Vec<Finding> {
    let reports: Vec<(&str, &EnsembleReport)> = known.answers.iter().filter_map(reported).collect();
    let mut findings = Vec::new();
    findings.extend(known.answers.iter().filter_map(|(server, answer)| judge_server(server, answer)));
    findings.extend(judge_unity(&reports));
    findings.extend(judge_size(known.answers.len(), known.voters, &reports));
    findings.extend(judge_tick(known, &reports));
    let ticks = reports.iter().filter_map(|(server, report)| judge_shortness(known.granted, server, report.tick?));
    findings.extend(ticks.take(1));
    findings.extend(silent_of_tick(&reports));
    findings.extend(judge_watches(&reports));
    findings
}

fn reported((server, answer): &(String, ServerAnswer)) -> Option<(&str, &EnsembleReport)> {
    match answer {
        ServerAnswer::Itself(report) => Some((server, report)),
        _ => None,
    }
}

fn judge_server(server: &str, answer: &ServerAnswer) -> Option<Finding> {
    Some(match answer {
        ServerAnswer::Unreachable(why) => Finding::new(
            Severity::Warning,
            format!("a server cannot be reached: {why}"),
            "start it, or take it out of the URL",
        ),
        ServerAnswer::NotServing => Finding::new(
            Severity::Warning,
            format!("{server} serves no clients: it belongs to no quorum"),
            "see its log; a quorum is more than half of the servers",
        ),
        ServerAnswer::Nothing => Finding::new(
            Severity::Note,
            format!("{server} does not answer `srvr`, so its version and its role are not known"),
            "set 4lw.commands.whitelist=srvr,conf in the server's configuration",
        ),
        ServerAnswer::Itself(EnsembleReport { version, mode, tick }) => {
            let tick = tick.map(|tick| format!(", with a tick of {tick:?}")).unwrap_or_default();
            Finding::note(format!("{server} runs ZooKeeper {version} ({mode}){tick}"))
        }
    })
}

/// Servers that do not follow one leader grant one lock several times.
fn judge_unity(reports: &[(&str, &EnsembleReport)]) -> Option<Finding> {
    let of_mode = |mode: &str| -> Vec<&str> {
        reports.iter().filter(|(_, report)| report.mode == mode).map(|(server, _)| *server).collect()
    };
    let (alone, leaders) = (of_mode("standalone"), of_mode("leader"));
    let what = if !alone.is_empty() && reports.len() > 1 {
        format!("{} stands alone, and the URL names others: they grant one lock several times", alone.join(", "))
    } else if leaders.len() > 1 {
        format!("{} lead separate ensembles: they grant one lock several times", leaders.join(" and "))
    } else {
        return None;
    };
    let cure = "name the servers of one ensemble in the URL; their configurations list all of them (server.N=…)";
    Some(Finding::new(Severity::Error, what, cure).leaving(Exclusion::BestEffort))
}

/// Whether locks go on when a server is lost.
fn judge_size(named: usize, voters: Option<usize>, reports: &[(&str, &EnsembleReport)]) -> Option<Finding> {
    let stands_alone = reports.iter().any(|(_, report)| report.mode == "standalone");
    match voters {
        _ if stands_alone => Some(Finding::new(
            Severity::Note,
            "the service is one server that stands alone; while it is down, no lock can be had",
            "use an ensemble of three servers, or five",
        )),
        Some(2) => Some(Finding::new(
            Severity::Warning,
            "the ensemble has two servers; while either is down, no lock can be had",
            "use three servers",
        )),
        Some(voters) if voters > 2 && named == 1 => Some(Finding::new(
            Severity::Warning,
            format!("the URL names one server of an ensemble of {voters}: without it no lock can be had"),
            "name all servers in the URL",
        )),
        Some(voters) if voters > 2 && voters % 2 == 0 => Some(Finding::new(
            Severity::Note,
            format!("an ensemble of {voters} servers survives no more losses than one of {}", voters - 1),
            "use an odd number of servers",
        )),
        _ => None,
    }
}

/// A holder believes itself by the tick: a greater one than it knows makes it believe too long.
fn judge_tick(known: ServiceFacts<'_>, reports: &[(&str, &EnsembleReport)]) -> Option<Finding> {
    let (server, tick) =
        reports.iter().filter_map(|(server, report)| Some((*server, report.tick?))).max_by_key(|(_, tick)| *tick)?;
    let believed = known.tick.unwrap_or(known.granted / 2);
    let what = match known.tick {
        Some(believed) if believed < tick => {
            format!("the URL says tick={believed:?}, and the tick of {server} is {tick:?}")
        }
        None if believed < tick => {
            format!(
                "half of the session timeout, {believed:?}, stands for the tick, and the tick of {server} is {tick:?}"
            )
        }
        None if believed > tick => {
            let what = format!("the tick of {server} is {tick:?}, and half of the session timeout stands for it");
            let cure = format!("put tick={tick:?} into the URL, and holds are believed for longer");
            return Some(Finding::new(Severity::Note, what, cure));
        }
        _ => return None,
    };
    let what = format!("{what}: holders may believe themselves for too long");
    Some(Finding::new(Severity::Error, what, format!("put tick={tick:?} into the URL")).leaving(Exclusion::BestEffort))
}

/// By default a server grants no session timeout below this many ticks, since it looks for dead sessions once a tick.
const TIMEOUT_TICKS_MIN: u32 = 2;

/// A session must outlive the time after which a server notices that its client is slow.
fn judge_shortness(granted: Duration, server: &str, tick: Duration) -> Option<Finding> {
    (granted < tick * TIMEOUT_TICKS_MIN).then(|| {
        let what = format!("the session timeout is {granted:?}, less than two ticks of {server} ({tick:?} each)");
        let cure =
            "set a longer session_timeout, or a shorter tickTime of the servers: sessions end while nothing is wrong";
        Finding::new(Severity::Warning, what, cure)
    })
}

/// The first version with recursive watches, by its major and minor number.
const WITH_RECURSIVE_WATCHES: (u32, u32) = (3, 6);

/// A follower of many locks on an older server looks at all of them again and again.
fn judge_watches(reports: &[(&str, &EnsembleReport)]) -> Option<Finding> {
    let is_older = |version: &str| {
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        matches!((numbers.next(), numbers.next()), (Some(Some(major)), Some(Some(minor)))
            if (major, minor) < WITH_RECURSIVE_WATCHES)
    };
    let (server, report) = reports.iter().find(|(_, report)| is_older(&report.version))?;
    let what =
        format!("{server} runs {}, which has no recursive watches: to follow all locks takes looks", report.version);
    Some(Finding::new(Severity::Note, what, "use ZooKeeper 3.6 or later"))
}

fn silent_of_tick(reports: &[(&str, &EnsembleReport)]) -> Option<Finding> {
    let (server, _) = reports.iter().find(|(_, report)| report.tick.is_none())?;
    Some(Finding::new(
        Severity::Note,
        format!("{server} does not answer `conf`, so its tick is not known"),
        "set 4lw.commands.whitelist=srvr,conf in the server's configuration",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_mode_and_tick_are_read_from_the_answers() {
        let srvr = "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25\n\
                    Latency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n";
        let report = EnsembleReport { version: "3.8.0".to_owned(), mode: "follower".to_owned(), tick: None };
        assert_eq!(read_srvr(srvr), ServerAnswer::Itself(report));
        assert_eq!(read_tick("clientPort=2181\ntickTime=2000\nmaxClientCnxns=60\n"), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_server_that_does_not_serve_and_one_that_answers_no_words_are_told_apart() {
        assert_eq!(read_srvr("This ZooKeeper instance is not currently serving requests\n"), ServerAnswer::NotServing);
        for answer in ["", "srvr is not executed because it is not in the whitelist.\n", "HTTP/1.1 400\r\n", "Mode:"] {
            assert_eq!(read_srvr(answer), ServerAnswer::Nothing, "{answer}");
        }
        assert_eq!(read_tick("conf is not executed because it is not in the whitelist.\n"), None);
        assert_eq!(read_tick("tickTime=soon"), None);
    }

    const TICK: Duration = Duration::from_secs(2);

    fn server(name: &str, mode: &str) -> (String, ServerAnswer) {
        let report = EnsembleReport { version: "3.8.0".to_owned(), mode: mode.to_owned(), tick: Some(TICK) };
        (name.to_owned(), ServerAnswer::Itself(report))
    }

    fn found(
        answers: &[(String, ServerAnswer)],
        voters: Option<usize>,
        tick: Option<Duration>,
        granted_s: u64,
    ) -> Vec<Finding> {
        let mut found = judge(ServiceFacts { answers, voters, tick, granted: Duration::from_secs(granted_s) });
        // That it runs, and what.
        found.retain(|finding| !finding.what.contains(" runs ZooKeeper 3.8.0 ("));
        found
    }

    fn only(found: &[Finding]) -> (Severity, Option<Exclusion>, &str) {
        let [finding] = found else { panic!("{found:?}") };
        (finding.severity, finding.leaves, &finding.what)
    }

    #[test]
    fn an_ensemble_in_order_has_nothing_but_what_it_runs() {
        let three = [server("a", "follower"), server("b", "leader"), server("c", "follower")];
        assert_eq!(found(&three, Some(3), Some(TICK), 20), []);
    }

    #[test]
    fn servers_that_are_not_one_service_are_an_error_that_takes_the_exclusion() {
        for answers in
            [[server("a", "standalone"), server("b", "leader")], [server("a", "leader"), server("b", "leader")]]
        {
            let found = found(&answers, None, Some(TICK), 20);
            assert_eq!((found[0].severity, found[0].leaves), (Severity::Error, Some(Exclusion::BestEffort)));
            assert!(found[0].what.contains("one lock several times"), "{found:?}");
        }
    }

    #[test]
    fn a_service_that_one_loss_stops_is_found() {
        let alone = [server("a", "standalone")];
        let one = [server("a", "leader")];
        for (answers, voters, severity, word) in [
            (&alone[..], None, Severity::Note, "stands alone"),
            (&one[..], Some(2), Severity::Warning, "two servers"),
            (&one[..], Some(3), Severity::Warning, "one server of an ensemble of 3"),
            (&[server("a", "leader"), server("b", "follower")], Some(4), Severity::Note, "no more losses"),
        ] {
            let found = found(answers, voters, Some(TICK), 20);
            let (severity_found, leaves, what) = only(&found);
            assert!((severity_found, leaves) == (severity, None) && what.contains(word), "{found:?}");
        }
    }

    #[test]
    fn a_tick_that_is_greater_than_the_one_that_is_believed_takes_the_exclusion() {
        let answers = [server("a", "leader"), server("b", "follower"), server("c", "follower")];
        let tick =
            |tick_ms: Option<u64>, granted_s| found(&answers, Some(3), tick_ms.map(Duration::from_millis), granted_s);
        assert_eq!(only(&tick(Some(500), 20)).1, Some(Exclusion::BestEffort));
        assert_eq!(tick(None, 3)[0].leaves, Some(Exclusion::BestEffort));
        assert_eq!(only(&tick(None, 20)).0, Severity::Note);
        assert_eq!(tick(Some(2_000), 4), []);
        assert_eq!(tick(Some(3_000), 20), []);
    }

    #[test]
    fn a_timeout_of_less_than_two_ticks_is_found_once() {
        let answers = [server("a", "leader"), server("b", "follower"), server("c", "follower")];
        let found = found(&answers, Some(3), Some(TICK), 3);
        let (severity, _, what) = only(&found);
        assert!(severity == Severity::Warning && what.contains("less than two ticks of a (2s each)"), "{what}");
    }

    #[test]
    fn a_version_without_recursive_watches_is_a_note() {
        for (version, is_told) in [("3.5.9", true), ("3.4.14", true), ("3.6.0", false), ("3.10.0", false), ("x", false)]
        {
            let report = EnsembleReport { version: version.to_owned(), mode: "leader".to_owned(), tick: Some(TICK) };
            let finding = judge_watches(&[("a", &report)]);
            assert_eq!(finding.map(|finding| finding.severity), is_told.then_some(Severity::Note), "{version}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_asked_is_told_with_the_cure() {
        let answers = [
            ("a".to_owned(), ServerAnswer::Nothing),
            ("b".to_owned(), ServerAnswer::NotServing),
            ("c".to_owned(), ServerAnswer::Unreachable("c: Connection refused".to_owned())),
        ];
        let found = found(&answers, Some(3), None, 20);
        let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Note, Severity::Warning, Severity::Warning]);
        assert!(found[0].cure.contains("4lw.commands.whitelist") && found[2].what.contains("refused"), "{found:?}");
    }
}
