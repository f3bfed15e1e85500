//! The terminal's modes: taken at the start, and given back however `top` ends, also by a panic.

use std::io::{self, Stdout, Write, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};
use ratatui::{Frame, Terminal};

/// Whether the terminal is ours now. There is one terminal a process, and a panic anywhere gives it back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The panic hook is set once a process.
static HOOK: Once = Once::new();

/// The terminal as a screen; dropping it gives the terminal back.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal: keys come one by one and are not echoed, and what was on it comes back at the end.
    /// Fails if the terminal refuses it or is gone; then it is as it was before.
    pub(super) fn take() -> io::Result<Self> {
        HOOK.call_once(give_back_at_panics);
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? };
        take()?;
        Ok(screen)
    }

    /// Tells whether the terminal is still ours: a task that panicked has given it back.
    pub(super) fn is_taken(&self) -> bool {
        IS_TAKEN.load(Ordering::Relaxed)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Has each cell drawn anew the next time, since another program may have written to the terminal.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        // Its own way to clear asks the terminal where the cursor is, and the answer would come as keys.
        let area = Rect::from((Position::ORIGIN, self.terminal.size()?));
        self.terminal.resize(area)
    }

    /// Gives the terminal back for as long as `pause` takes.
    pub(super) fn given_back<Output>(&mut self, pause: impl FnOnce() -> Output) -> io::Result<Output> {
        give_back();
        let output = pause();
        self.take_again()?;
        Ok(output)
    }

    /// Takes the terminal again after this process was stopped: a shell has changed its modes meanwhile.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        // What is remembered of its modes would keep it from being taken anew.
        give_back();
        take()?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::Relaxed);
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste).inspect_err(|_| give_back())
}

/// Gives the terminal back, once. A terminal that is gone needs nothing.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let mut out = stdout();
        let _ = queue!(out, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}

/// What a panic says is to be read, and so is behind the screen's end.
fn give_back_at_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        give_back();
        before(panicked);
    }));
}
