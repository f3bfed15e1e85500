//! `monitor`: what is known of all locks, by HTTP, until a signal ends it.

use std::sync::Arc;

use lockkeeper::follow::Scope;
use lockkeeper::{NamePattern, QueueName};
use sd_notify::NotifyState;

use super::manager::tell_manager;
use super::service::{block_on_closing, open};
use crate::args::{Global, MonitorArgs};
use crate::config::MonitorSettings;
use crate::exit::Failure;
use crate::interruption::Interruption;
use crate::monitor::{Alerting, Listener, Operating, Pages, PublicUrl, Token, View, operating_routes, router, routes};
use crate::output::Orders;
use crate::voice::say;

/// Serves until TERM, INT or HUP. A service that cannot be reached is no failure: it is asked again and again.
pub(crate) fn monitor(global: &Global, args: MonitorArgs) -> Result<u8, Failure> {
    let MonitorArgs { listen, also, lock_metrics, state, operate, operate_token_file, public_url } = args;
    let scope = also.iter().try_fold(Scope::default(), |scope, name| also_in(scope, name))?;
    let pattern =
        |text: &String| NamePattern::new(text).map_err(|what| Failure::ours(format!("--lock-metrics: {what}")));
    let lock_metrics = lock_metrics.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
    let public = public_url.as_deref().map(PublicUrl::parse).transpose();
    let public = public.map_err(|what| Failure::ours(format!("--public-url: {what}")))?;
    let token = operate.then(|| Token::load(operate_token_file.as_deref(), |name| std::env::var_os(name)));
    let token = token.transpose()?;
    let settings = MonitorSettings::load(global)?;
    let keeper = open(global)?;
    let service = keeper.service();
    block_on_closing(&keeper, async {
        let mut interruption = Interruption::listen()?;
        let listener = Listener::bind(&listen, public.clone())?;
        if token.is_some() {
            listener.require_secrecy()?;
        }
        let collector = Arc::new(settings.collector(&keeper, scope));
        let alerting = Arc::new(Alerting::new(&keeper, Arc::clone(&collector), settings, state.as_deref())?);
        let operating = token.map(|token| {
            let (keeper, collector) = (keeper.clone(), Arc::clone(&collector));
            Arc::new(Operating::new(keeper, collector, token, public, listener.port()))
        });
        let orders = Orders::new(global).on_page(operating.is_some());
        let view = Arc::new(View { collector, alerting, lock_metrics, orders });
        let pages = Arc::new(Pages::new(Arc::clone(&view), epoch()?, operating.clone()));
        let mut paths = routes(Arc::clone(&pages));
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
            cause = interruption.heard() => {
                say(&format!("stopping, by {}", cause.name));
                tell_manager(NotifyState::Stopping);
                view.alerting.finish();
                Ok(0)
            }
            never = listener.serve(router) => match never {},
            () = view.collector.run() => Ok(0),
            () = view.alerting.run() => Ok(0),
            () = pages.run() => Ok(0),
        };
        // What they own would outlive the keeper, which is closed next.
        if let Some(operating) = operating {
            operating.stop().await;
        }
        ended
    })?
}

/// A number that no other monitor has, by all odds.
fn epoch() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::ours(format!("monitor: the system has no random numbers: {error}")))
}

fn also_in(scope: Scope, name: &str) -> Result<Scope, Failure> {
    let refuse = |what: String| Err(Failure::ours(format!("--also: {what}")));
    match QueueName::new(name) {
        Ok(_) if !name.starts_with('/') => refuse(format!(
            "`{name}` is no path; write it as /kazoo/locks/nightly; locks of the base are watched without it"
        )),
        Ok(lock) => Ok(scope.with(lock)),
        Err(error) => refuse(error.to_string()),
    }
}
