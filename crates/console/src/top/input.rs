//! From what a terminal sends to keys.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum TerminalInput {
    Key(KeyPress),
    /// A text was pasted. It is no row of keys: what it says must not be done.
    Pasted(String),
    Resized,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum KeyPress {
    Letter(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Interrupt,
    Suspend,
    /// Ctrl-U: empties the line that is typed.
    Clear,
    Redraw,
}

/// Returns what an event means, if it means anything.
pub(super) fn input(event: Event) -> Option<TerminalInput> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => self::key(key).map(TerminalInput::Key),
        Event::Paste(text) => Some(TerminalInput::Pasted(text)),
        Event::Resize(..) => Some(TerminalInput::Resized),
        _ => None,
    }
}

fn key(KeyEvent { code, modifiers, .. }: KeyEvent) -> Option<KeyPress> {
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c') => Some(KeyPress::Interrupt),
            KeyCode::Char('z') => Some(KeyPress::Suspend),
            KeyCode::Char('u') => Some(KeyPress::Clear),
            KeyCode::Char('l') => Some(KeyPress::Redraw),
            // What some terminals send for backspace.
            KeyCode::Char('h') => Some(KeyPress::Backspace),
            _ => None,
        };
    }
    if modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(match code {
        KeyCode::Char(letter) => KeyPress::Letter(letter),
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::First,
        KeyCode::End => KeyPress::Last,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_alt_and_releases_mean_nothing_and_a_pasted_text_is_no_row_of_keys() {
        let pressed = |code, modifiers| input(Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::NONE), Some(TerminalInput::Key(KeyPress::Letter('b'))));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::ALT), None);
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(TerminalInput::Key(KeyPress::Interrupt)));
        let mut released = KeyEvent::new(KeyCode::Char('b'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(input(Event::Key(released)), None);
        assert_eq!(input(Event::Paste("ry\n".to_owned())), Some(TerminalInput::Pasted("ry\n".to_owned())));
    }
}
