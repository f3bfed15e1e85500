//! A campaigner: this program in another part, and how the test sees it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockkeeper_core::SafeUntil;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::{Error, Result};
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Event, Hold, Keeper, LeaderSelector, Observer, Requeue};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::sync::watch;

use crate::account::{Account, Saying};
use crate::plan::{Fault, SESSION_TIMEOUT, TICK};

/// The first argument of a process that is a campaigner; the URL and the election's name follow.
const PART: &str = "--campaign";

/// How often a leader looks until when it may believe itself.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A campaigner as the test sees it: its process, and the way from it to its server.
pub(crate) struct Campaigner {
    place: usize,
    election: String,
    process: Process,
    proxy: Proxy,
    account: watch::Sender<Account>,
}

impl Campaigner {
    pub(crate) async fn start(
        place: usize,
        election: &str,
        server: SocketAddr,
        account: &watch::Sender<Account>,
    ) -> Result<Self> {
        let proxy = Proxy::start(server).await?;
        let process = start(place, election, &proxy, account)?;
        Ok(Self { place, election: election.to_owned(), process, proxy, account: account.clone() })
    }

    /// Strikes it; returns the earliest moment at which that took effect.
    pub(crate) fn strike(&mut self, fault: Fault) -> Result<BootInstant> {
        let struck_at = now();
        match fault {
            Fault::Killed => self.process.kill(),
            Fault::Stopped => self.process.pause()?,
            Fault::CutOff => self.proxy.blackhole(),
        }
        Ok(struck_at)
    }

    /// Lets it take part again.
    pub(crate) fn heal(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Killed => self.process = start(self.place, &self.election, &self.proxy, &self.account)?,
            Fault::Stopped => self.process.resume()?,
            Fault::CutOff => self.proxy.heal(),
        }
        Ok(())
    }
}

/// Starts the process, and a thread that writes down what it says, and that it has died.
fn start(place: usize, election: &str, proxy: &Proxy, account: &watch::Sender<Account>) -> Result<Process> {
    let (timeout, tick) = (SESSION_TIMEOUT.as_millis(), TICK.as_millis());
    let url = format!("zk://{}?session_timeout={timeout}ms&tick={tick}ms", proxy.address());
    let program = std::env::current_exe().map_err(|error| Error::new(error.to_string()))?;
    let mut command = process::command(program);
    command.args([PART, &url, election]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start(command)?;
    let output = process.take_stdout().expect("asked to be piped");
    let account = account.clone();
    thread::spawn(move || {
        // Ends with the process, which closes its output.
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            let saying = Saying::parse(&line).unwrap_or_else(|| panic!("no saying: {line}"));
            account.send_modify(|account| account.note(place, &saying));
        }
        account.send_modify(|account| account.note_death(place));
    });
    Ok(process)
}

pub(crate) fn now() -> BootInstant {
    SystemClock.now()
}

/// Campaigns until it is killed, if that is what this process was started for.
pub(crate) fn live_as_one() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, part, url, election] = arguments.as_slice() else {
        return None;
    };
    (part == PART).then(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let error = runtime.block_on(campaign(url, election));
        eprintln!("the campaign for {election} is over: {error:?}");
        ExitCode::FAILURE
    })
}

async fn campaign(url: &str, election: &str) -> Option<lockkeeper_core::Error> {
    let backend = ZooKeeperBackend::open(&url.parse().expect("a URL")).expect("good settings");
    let keeper = Keeper::builder(Arc::new(backend))
        .observer(Arc::new(Speaker))
        .retry(RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(250)))
        .build();
    let election = keeper.election(election).expect("a name");
    LeaderSelector::start(&election, Requeue::Always, lead).over().await
}

/// Says when it has a place.
#[derive(Debug)]
struct Speaker;

impl Observer for Speaker {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::Joined { .. }) {
            say(&Saying::Joined);
        }
    }
}

/// A line in one piece, so that a kill does not tear it.
fn say(saying: &Saying) {
    println!("{}", saying.line());
}

/// Leads until the lead is lost, and says all the time what it believes.
async fn lead(hold: Hold) {
    /// Says when the leading ended, also if that ends this task.
    struct Farewell;

    impl Drop for Farewell {
        fn drop(&mut self) {
            say(&Saying::Ended(now()));
        }
    }

    say(&Saying::Leads { token: hold.fencing_token().as_u64(), now: now() });
    let _farewell = Farewell;
    let mut said = None;
    while let Some(SafeUntil::At(until)) = hold.liveness().safe_until() {
        if said != Some(until) {
            say(&Saying::Until(until));
            said = Some(until);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
