//! The life of a monitor: it serves what is known of all locks, by HTTP, until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;

use lockkeeper::follow::Scope;
use lockkeeper::{Keeper, NamePattern, Owner, QueueName};
use sd_notify::NotifyState;

use super::alerting::Alerting;
use super::alerting::View;
use super::answers::router;
use super::listener::MonitorListener;
use super::operate::{Operating, PublicUrl, Token, routes as operating_routes};
use super::page::{Pages, routes};
use super::past;
use super::recording::HistoryDirectory;
use crate::args::MonitorArgs;
use crate::config::{Listen, MonitorSettings};
use crate::exit::CommandFailure;
use crate::output::{OrderCommands, say};
use crate::process::tell_manager;

/// A monitor whose options are checked, and that serves nothing yet.
#[derive(Debug)]
pub struct Monitor {
    listen: Listen,
    scope: Scope,
    lock_metrics: Vec<NamePattern>,
    state: Option<PathBuf>,
    history: Option<PathBuf>,
    public: Option<PublicUrl>,
    token: Option<Token>,
}

impl Monitor {
    /// Checks the options.
    pub fn new(args: MonitorArgs) -> Result<Self, CommandFailure> {
        let MonitorArgs { listen, also, lock_metrics, state, history, operate, operate_token_file, public_url } = args;
        let scope = also.iter().try_fold(Scope::default(), |scope, name| also_in(scope, name))?;
        let pattern = |text: &String| {
            NamePattern::new(text).map_err(|what| CommandFailure::ours(format!("--lock-metrics: {what}")))
        };
        let lock_metrics = lock_metrics.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        let public = public_url.as_deref().map(PublicUrl::parse).transpose();
        let public = public.map_err(|what| CommandFailure::ours(format!("--public-url: {what}")))?;
        let token = operate.then(|| Token::load(operate_token_file.as_deref(), |name| std::env::var_os(name)));
        let token = token.transpose()?;
        Ok(Self { listen, scope, lock_metrics, state, history, public, token })
    }

    /// Serves until `stopping` returns the name of the signal that ends it. A service that cannot be reached is no
    /// failure: it is asked again and again.
    pub async fn serve(
        self,
        keeper: &Keeper,
        settings: MonitorSettings,
        orders: OrderCommands,
        stopping: impl Future<Output = &'static str>,
    ) -> Result<u8, CommandFailure> {
        let Self { listen, scope, lock_metrics, state, history, public, token } = self;
        let service = keeper.service();
        let listener = MonitorListener::bind(&listen, public.clone())?;
        if token.is_some() {
            listener.require_secrecy()?;
        }
        let collector = Arc::new(settings.collector(keeper, scope));
        let machine = format!("monitor on {}", Owner::this_process().host);
        let recording = history
            .or_else(|| settings.history.clone())
            .map(|path| HistoryDirectory::open(&path, &collector, &machine).map(Arc::new));
        let recording = recording.transpose()?;
        let alerting = Arc::new(Alerting::new(keeper, Arc::clone(&collector), settings, state.as_deref())?);
        let operating = token.map(|token| {
            let (keeper, collector) = (keeper.clone(), Arc::clone(&collector));
            Arc::new(Operating::new(keeper, collector, token, public, listener.port()))
        });
        let orders = orders.on_page(operating.is_some());
        let view = Arc::new(View { collector, alerting, lock_metrics, orders, machine });
        let pages = Arc::new(Pages::new(Arc::clone(&view), epoch()?, operating.clone()));
        let mut paths = routes(Arc::clone(&pages)).merge(past::routes(Arc::clone(&view)));
        if let Some(operating) = &operating {
            paths = paths.merge(operating_routes(Arc::clone(&view), Arc::clone(operating)));
        }
        let router = router(Arc::clone(&view), paths);
        say(&format!("watching {service}, at {}", listener.url()));
        if let Some(warning) = listener.exposure() {
            say(&warning);
        }
        tell_manager(NotifyState::Ready);
        let ended = tokio::select! {
            biased;
            signal = stopping => {
                say(&format!("stopping, by {signal}"));
                tell_manager(NotifyState::Stopping);
                view.alerting.finish();
                Ok(0)
            }
            never = listener.serve(router) => match never {},
            () = view.collector.run() => Ok(0),
            () = record(recording.as_ref(), &view) => Ok(0),
            () = view.alerting.run() => Ok(0),
            () = pages.run() => Ok(0),
        };
        if let Some(recording) = &recording {
            recording.finish(&view.collector);
        }
        // What they own would outlive the keeper, which is closed next.
        if let Some(operating) = operating {
            operating.stop().await;
        }
        ended
    }
}

async fn record(recording: Option<&Arc<HistoryDirectory>>, view: &View) {
    match recording {
        Some(recording) => recording.run(&view.collector).await,
        None => std::future::pending().await,
    }
}

/// A number that no other monitor has, by all odds.
fn epoch() -> Result<u64, CommandFailure> {
    getrandom::u64()
        .map_err(|error| CommandFailure::ours(format!("monitor: the system has no random numbers: {error}")))
}

fn also_in(scope: Scope, name: &str) -> Result<Scope, CommandFailure> {
    let refuse = |what: String| Err(CommandFailure::ours(format!("--also: {what}")));
    match QueueName::new(name) {
        Ok(_) if !name.starts_with('/') => refuse(format!(
            "`{name}` is no path; write it as /kazoo/locks/nightly; locks of the base are watched without it"
        )),
        Ok(lock) => Ok(scope.with(lock)),
        Err(error) => refuse(error.to_string()),
    }
}
