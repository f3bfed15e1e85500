//! The loop of `top`: what is known, keys, signals and orders come in, the screen goes out.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use crossterm::event::EventStream;
use futures_util::StreamExt as _;
use lockkeeper::follow::Scope;
use lockkeeper::{Keeper, QueueName};
use lockkeeper_monitor::Collector;
use lockkeeper_monitor::alerts::Alerts;
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::app::{App, AppEffect};
use super::draw::{draw, fit};
use super::input::input;
use super::screen::Screen;
use super::sight::ScreenData;
use crate::config::MonitorSettings;
use crate::exit::{CommandFailure, by_signal};
use crate::ordering::{OperatorOrder, Undone};
use crate::output::{OrderCommands, OrderReport};

/// How often it is drawn at most without a key: four times a second look like at once.
const PERIOD: Duration = Duration::from_millis(250);

/// How often it is drawn if nothing changes: ages go on by themselves.
const CALM_PERIOD: Duration = Duration::from_secs(1);

/// An order that is being carried out; dropping it gives up waiting for it.
type PendingOrder = Pin<Box<dyn Future<Output = Result<OrderReport, Undone>> + Send>>;

/// How the process stops with its job, as a shell's Ctrl-Z has it.
#[derive(Debug)]
pub struct JobStop {
    /// The signal that asks for it; `None` where it is ignored, since no shell would continue this process.
    pub signal: Option<Signals>,
    /// Stops the job, and returns once it is continued; or says why it was not stopped.
    pub stop: fn() -> Result<(), String>,
}

/// Shows the locks until a key ends it. A service that cannot be reached is no end.
pub async fn run(
    keeper: &Keeper,
    settings: &MonitorSettings,
    orders: &OrderCommands,
    job: JobStop,
) -> Result<u8, CommandFailure> {
    let collector = &settings.collector(keeper, Scope::default());
    let live = TopLoop {
        keeper,
        collector,
        job,
        settings,
        orders,
        alerts: Alerts::default(),
        app: App::new(collector.service()),
        under_way: None,
    };
    tokio::select! {
        biased;
        ended = live.show() => ended,
        () = collector.run() => Ok(0),
    }
}

/// What the loop has at hand.
struct TopLoop<'a> {
    keeper: &'a Keeper,
    collector: &'a Collector,
    job: JobStop,
    settings: &'a MonitorSettings,
    orders: &'a OrderCommands,
    alerts: Alerts,
    app: App,
    under_way: Option<PendingOrder>,
}

impl TopLoop<'_> {
    async fn show(mut self) -> Result<u8, CommandFailure> {
        let failed = |error: io::Error| CommandFailure::ours(format!("top: the terminal cannot be used: {error}"));
        let mut screen = Screen::take().map_err(failed)?;
        let mut events = EventStream::new();
        let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw())).map_err(failed)?;
        let mut changes = self.collector.changes();
        loop {
            if !screen.is_taken() {
                return Err(CommandFailure::ours("top: ended, since a part of it has panicked"));
            }
            changes.mark_unchanged();
            self.look();
            let app = &mut self.app;
            screen
                .draw(|frame| {
                    fit(app, frame.area());
                    draw(frame, app);
                })
                .map_err(failed)?;
            let news = async {
                sleep(PERIOD).await;
                // The collector lives as long as this does.
                let _ = timeout(CALM_PERIOD.saturating_sub(PERIOD), changes.changed()).await;
            };
            tokio::select! {
                biased;
                event = events.next() => {
                    let Some(event) = event else { return Err(CommandFailure::ours("top: the terminal is gone")) };
                    let effect = input(event.map_err(failed)?).and_then(|input| self.app.handle(input));
                    if let Some(code) = self.carry_out(effect, &mut screen).map_err(failed)? {
                        return Ok(code);
                    }
                }
                outcome = ended(&mut self.under_way) => {
                    self.under_way = None;
                    self.app.done(outcome.map(|done| done.text()).map_err(|undone| undone.text()));
                }
                () = came(&mut self.job.signal) => self.suspend(&mut screen).map_err(failed)?,
                _ = continued.recv() => screen.take_again().map_err(failed)?,
                () = news => {}
            }
        }
    }

    fn look(&mut self) {
        let now = self.collector.now();
        let thresholds = |lock: &QueueName| self.settings.thresholds(lock.as_str());
        let sight = self.collector.read(|state| {
            self.alerts.judge(state, now, thresholds);
            let firing: Vec<_> = self.alerts.firing().collect();
            let (lock, chosen) = (self.app.lock.as_ref(), self.app.list.chosen());
            ScreenData::new(state, &firing, self.orders, &self.app.query, lock, chosen, now)
        });
        self.app.see(sight);
    }

    /// Does what a key asks for; returns the exit code if it is the end.
    fn carry_out(&mut self, effect: Option<AppEffect>, screen: &mut Screen) -> io::Result<Option<u8>> {
        match effect {
            Some(AppEffect::Quit) => return Ok(Some(0)),
            Some(AppEffect::Interrupt) => return Ok(Some(by_signal(Signal::INT.as_raw()))),
            Some(AppEffect::Redraw) => screen.forget()?,
            Some(AppEffect::Suspend) => self.suspend(screen)?,
            Some(AppEffect::Do(lock, order)) => self.under_way = Some(carried_out(self.keeper.clone(), lock, order)),
            Some(AppEffect::GiveUp) => {
                self.under_way = None;
                self.app.done(Err("given up; what was under way may have been done".to_owned()));
            }
            None => {}
        }
        Ok(None)
    }

    /// Gives the terminal back and stops, with its job; takes the terminal again when a shell continues it.
    fn suspend(&mut self, screen: &mut Screen) -> io::Result<()> {
        if let Err(why) = screen.given_back(self.job.stop)? {
            self.app.fail(&why);
        }
        Ok(())
    }
}

fn carried_out(keeper: Keeper, lock: QueueName, order: OperatorOrder) -> PendingOrder {
    Box::pin(async move { order.carry_out(&keeper, &lock).await })
}

/// Waits for the order that is under way, if one is.
async fn ended(under_way: &mut Option<PendingOrder>) -> Result<OrderReport, Undone> {
    match under_way {
        Some(under_way) => under_way.await,
        None => pending().await,
    }
}

async fn came(signal: &mut Option<Signals>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => pending().await,
    }
}
