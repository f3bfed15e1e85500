//! A service as it was seen, and a person before a screen of 80 x 24.

use std::time::Duration;

use lockkeeper::backend::{Flow, ProcessId};
use lockkeeper::clock::BootInstant;
use lockkeeper::{
    Answers, ContenderId, ContenderInfo, Error, ErrorKind, FencingToken, Mode, Operation, Owner, QueueName,
};
use lockkeeper_monitor::alerts::{Alerts, Thresholds};
use lockkeeper_monitor::{CollectionMode, Confirmation, MonitorState, ServiceFreshness, TimePoint, find};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::output::OrderCommands;
use crate::top::app::{App, AppEffect};
use crate::top::draw::{draw, fit};
use crate::top::input::{KeyPress, TerminalInput};
use crate::top::sight::ScreenData;

/// 2025-06-15, 15:06:40 UTC.
const BEGIN_UNIX: Duration = Duration::from_secs(1_750_000_000);

pub(super) struct Scene {
    pub(super) state: MonitorState,
    alerts: Alerts,
    confirmation: Confirmation,
    pub(super) app: App,
    now: TimePoint,
    pub(super) size: (u16, u16),
}

impl Scene {
    /// A service without locks that tells of each change.
    pub(super) fn new() -> Self {
        let mut state = MonitorState::default();
        (state.way, state.freshness) = (CollectionMode::Told, ServiceFreshness::Fresh(None));
        Self {
            state,
            alerts: Alerts::default(),
            confirmation: Confirmation::default(),
            app: App::new("zk://zk1:2181".to_owned()),
            now: TimePoint { boot: BootInstant::from_nanos(1_000_000_000), unix: BEGIN_UNIX },
            size: (80, 24),
        }
    }

    pub(super) fn after(&mut self, seconds: u64) {
        let passed = Duration::from_secs(seconds);
        self.now = TimePoint { boot: self.now.boot.saturating_add(passed), unix: self.now.unix + passed };
    }

    /// Has the contenders of a lock seen now.
    pub(super) fn queue(&mut self, lock: &str, contenders: &[ContenderInfo]) {
        self.state.model.see(&name(lock), contenders.to_vec(), Some(self.now.boot), self.now);
    }

    /// Has the service lost now.
    pub(super) fn lose(&mut self, why: &str) {
        let error = Error::transient(ErrorKind::ConnectionLost, Operation::Connect, why);
        self.state.freshness = ServiceFreshness::Stale(self.now.boot, error);
    }

    /// Searches for deadlocks; one is known if it was there at the last search.
    pub(super) fn search(&mut self) {
        let snapshot = self.state.model.contended(self.now.boot, self.now);
        self.state.deadlocks = self.confirmation.judge(&snapshot, find(&snapshot));
    }

    /// Looks, and returns the lines of the screen.
    pub(super) fn screen(&mut self) -> Vec<String> {
        self.look();
        self.draw()
    }

    /// Returns the lines of the screen, of what was seen when it looked last.
    pub(super) fn draw(&mut self) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        let app = &mut self.app;
        terminal
            .draw(|frame| {
                fit(app, frame.area());
                draw(frame, app);
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        let width = usize::from(self.size.0);
        let line = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.trim_end().to_owned()
        };
        buffer.content().chunks(width).map(line).collect()
    }

    fn look(&mut self) {
        self.alerts.judge(&self.state, self.now, |_| Thresholds::default());
        let firing: Vec<_> = self.alerts.firing().collect();
        let orders = OrderCommands::new(None, None);
        let (query, lock) = (&self.app.query, self.app.lock.as_ref());
        let sight = ScreenData::new(&self.state, &firing, &orders, query, lock, self.app.list.chosen(), self.now);
        self.app.see(sight);
    }

    /// The rows of the list or the queue, without the lines around them.
    pub(super) fn rows(&mut self) -> Vec<String> {
        let screen = self.screen();
        let begin = screen.iter().position(|line| line.contains("WAITING") || line.contains("STATE")).unwrap() + 1;
        screen[begin..screen.len() - 2].iter().take_while(|line| !line.is_empty()).cloned().collect()
    }

    /// The line above the keys.
    pub(super) fn status(&mut self) -> String {
        let screen = self.screen();
        screen[screen.len() - 2].clone()
    }

    pub(super) fn key(&mut self, key: KeyPress) -> Option<AppEffect> {
        let effect = self.app.handle(TerminalInput::Key(key));
        self.look();
        effect
    }

    /// Presses the keys of a text, one after the other, and returns what the last one leads to.
    pub(super) fn keys(&mut self, text: &str) -> Option<AppEffect> {
        let mut last = None;
        for letter in text.chars() {
            last = self.key(match letter {
                '\n' => KeyPress::Enter,
                letter => KeyPress::Letter(letter),
            });
        }
        last
    }
}

pub(super) fn name(text: &str) -> QueueName {
    QueueName::new(text).unwrap()
}

/// A contender of a process of the same number.
pub(super) fn contender(number: u32, mode: Mode) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new(format!("c{number}")), mode);
    info.owner = Some(Owner::new(format!("web-{number}"), 4_000 + number, "backup.sh"));
    info.since_unix = Some(BEGIN_UNIX);
    info.answers = Answers::Yes;
    info
}

pub(super) fn mutex(number: u32) -> ContenderInfo {
    contender(number, Mode::Mutex)
}

/// The same, with the token that it was granted.
pub(super) fn granted(number: u32, token: u64) -> ContenderInfo {
    let mut info = mutex(number);
    info.token = FencingToken::new(token, 0);
    info
}

/// The same, of a thread of another process: the contenders of one thread of one process are one flow of control.
pub(super) fn of_thread(mut info: ContenderInfo, id: &str, process: &str) -> ContenderInfo {
    info.id = ContenderId::new(id);
    info.caller.process = ProcessId::parse(process);
    info.caller.flow = Flow::parse("h1");
    info
}
